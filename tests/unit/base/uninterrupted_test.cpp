#include "base/uninterrupted.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/signalled_thread.h"
#include "support/temporary_directory.h"

using namespace ddp::base;
using namespace ddp::test;
using namespace std::chrono_literals;

TEST_CASE("a call that a signal interrupts is repeated, and other errors are returned") {
  int calls = 0;
  CHECK(uninterrupted([&] {
          errno = EINTR;
          return ++calls < 3 ? -1 : 7;
        }) == 7);
  CHECK(calls == 3);
  CHECK(uninterrupted([&] {
          errno = ++calls < 5 ? EINTR : ENOSPC;
          return -1;
        }) == -1);
  CHECK(calls == 5);
  CHECK(errno == ENOSPC);
}

TEST_CASE("opening a pipe without a reader continues after signals") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  UniqueFd writer;
  UniqueFd reader;
  run_with_signals([&] { writer.reset(uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC); })); },
                   [&] { reader.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); });
  CHECK(writer);
}

TEST_CASE("poll_until() continues after signals and ends at its deadline") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  int ready = -1;
  const int signals = run_with_signals([&] { ready = poll_until(out.get(), POLLIN, soon()); },
                                       [&] { CHECK(::write(in.get(), "x", 1) == 1); });
  CHECK(ready == 1);
  CHECK(signals >= 100);
  char byte = 0;
  REQUIRE(::read(out.get(), &byte, 1) == 1);
  const auto began = std::chrono::steady_clock::now();
  run_with_signals([&] { ready = poll_until(out.get(), POLLIN, began + 50ms); }, [] {});
  CHECK(ready == 0);
  CHECK(std::chrono::steady_clock::now() - began >= 50ms);
}

TEST_CASE("poll_until() polls once even if its deadline has passed") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  CHECK(poll_until(in.get(), POLLOUT, std::chrono::steady_clock::now() - 1s) == 1);
  CHECK(poll_until(out.get(), POLLIN, std::chrono::steady_clock::now() - 1s) == 0);
}
