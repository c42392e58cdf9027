#include "torch_reader/worker_ends.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/deadline.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using ddp::torch_reader::WorkerEnds;
using Clock = std::chrono::steady_clock;

TEST_CASE("the end of a process wakes the reader once") {
  WorkerEnds ends;
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  REQUIRE(child > 0);
  ends.follow(child);
  CHECK_FALSE(ends.wait_until(Clock::now() + 1ms));
  ::kill(child, SIGKILL);
  CHECK(ends.wait_until(Clock::now() + kPatience));
  ends.follow(child);  // it is not followed again
  CHECK_FALSE(ends.wait_until(Clock::now() + 1ms));
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a process that does not exist does not wake the reader") {
  WorkerEnds ends;
  ends.follow(1 << 29);
  CHECK_FALSE(ends.wait_until(Clock::now() + 1ms));
}

TEST_CASE("a descriptor that becomes readable wakes the reader, and is no end") {
  WorkerEnds ends;
  std::array<int, 2> pipe{};
  REQUIRE(::pipe2(pipe.data(), O_CLOEXEC) == 0);
  const ddp::base::UniqueFd out(pipe[0]);
  const ddp::base::UniqueFd in(pipe[1]);
  REQUIRE(::write(in.get(), "x", 1) == 1);
  const std::array<int, 2> descriptors{-1, out.get()};
  const auto begun = Clock::now();
  CHECK_FALSE(ends.wait_until(begun + kPatience, descriptors));
  CHECK(Clock::now() - begun < kPatience);
}
