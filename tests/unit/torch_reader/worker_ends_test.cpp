#include "torch_reader/worker_ends.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/uninterrupted.h"
#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/temporary_directory.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using ddp::torch_reader::WorkerEnds;
using Clock = std::chrono::steady_clock;
using ddp::torch_reader::CrashPipe;

namespace {

// A worker whose pipe has room for one write, as the hook makes it.
class Crashing {
 public:
  explicit Crashing(const std::string& path) : pipe_(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) {
    REQUIRE(pipe_);
    REQUIRE(::fcntl(pipe_.get(), F_SETPIPE_SZ, 1) >= 0);
    REQUIRE(::fcntl(pipe_.get(), F_SETFL, O_WRONLY | O_DIRECT) == 0);
    thread_ = std::jthread([this] {
      for (const char* const word : {"Fatal Python error: ", "Aborted", "\n"}) {
        written_ += ::write(pipe_.get(), word, std::string_view(word).size()) > 0 ? 1 : 0;
      }
    });
  }

  int written() const { return written_; }
  void wait() { thread_.join(); }

 private:
  ddp::base::UniqueFd pipe_;
  std::atomic<int> written_ = 0;
  std::jthread thread_;
};

std::string pipe_in(const TemporaryDirectory& directory) {
  std::string path = directory.path() + "/crash";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return path;
}

}  // namespace

TEST_CASE("the exit of a process wakes the reader once") {
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

TEST_CASE("a readable descriptor wakes the reader and is not an exit") {
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

TEST_CASE("a crashing worker waits until its text has been read") {
  const TemporaryDirectory directory;
  const std::string path = pipe_in(directory);
  const std::string copy = directory.path() + "/stacks";
  CrashPipe pipe(path, copy);
  Crashing worker(path);
  REQUIRE(ddp::base::poll_until(pipe.descriptor(), POLLIN, Clock::now() + kPatience) > 0);
  ::usleep(20000);
  CHECK(worker.written() == 1);
  pipe.take();
  worker.wait();
  pipe.take();
  CHECK(ddp::base::read_file(copy) == "Fatal Python error: Aborted\n");
  // Although no process writes to the pipe any more, the pipe is not readable.
  CHECK(ddp::base::poll_until(pipe.descriptor(), POLLIN, Clock::now()) == 0);
}

TEST_CASE("CrashPipe goes on reading a worker's crash message if the copy cannot be written") {
  const TemporaryDirectory directory;
  const std::string path = pipe_in(directory);
  CrashPipe pipe(path, directory.path() + "/no/such/directory");
  Crashing worker(path);
  while (worker.written() < 3) pipe.take();
  worker.wait();
}

TEST_CASE("nothing is read without a pipe") {
  const TemporaryDirectory directory;
  CrashPipe pipe(directory.path() + "/crash", directory.path() + "/stacks");
  CHECK(pipe.descriptor() == -1);
  pipe.take();
  CHECK(ddp::base::read_file(directory.path() + "/stacks").empty());
}
