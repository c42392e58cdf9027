#include "base/sigpipe_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "support/catch.h"

using ddp::base::SigpipeGuard;

namespace {

std::atomic<int> received = 0;

// Counts SIGPIPE signals as long as the object exists.
class Counting {
 public:
  Counting() : before_(::signal(SIGPIPE, [](int) { ++received; })) { received = 0; }
  ~Counting() { ::signal(SIGPIPE, before_); }

 private:
  decltype(::signal(0, nullptr)) before_;
};

int write_to_closed_pipe() {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  const int error = ::write(ends[1], "x", 1) == 1 ? 0 : errno;
  ::close(ends[1]);
  return error;
}

}  // namespace

TEST_CASE("a write to a closed pipe fails without SIGPIPE while the guard exists") {
  const Counting counting;
  {
    const SigpipeGuard guard;
    CHECK(write_to_closed_pipe() == EPIPE);
  }
  CHECK(received == 0);
  CHECK(write_to_closed_pipe() == EPIPE);
  CHECK(received == 1);
}

TEST_CASE("a thread started under the guard never gets SIGPIPE") {
  const Counting counting;
  std::atomic<bool> go = false;
  std::thread thread;
  {
    const SigpipeGuard guard;
    thread = std::thread([&] {
      while (!go) std::this_thread::yield();
      CHECK(write_to_closed_pipe() == EPIPE);
    });
  }
  go = true;
  thread.join();
  CHECK(received == 0);
}

TEST_CASE("a SIGPIPE that was pending before the guard is still pending after it") {
  const Counting counting;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &set, &before);
  ::pthread_kill(::pthread_self(), SIGPIPE);
  {
    const SigpipeGuard guard;
    CHECK(write_to_closed_pipe() == EPIPE);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  CHECK(received == 1);
}
