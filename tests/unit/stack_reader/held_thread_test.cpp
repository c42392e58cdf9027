#include "stack_reader/held_thread.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::stack_reader;

#ifdef __x86_64__
namespace {

class Child {
 public:
  explicit Child(const std::function<int()>& program) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(program());
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    if (!has_ended_) ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }
  bool has_ended() { return has_ended_ = has_ended_ || ::waitpid(pid_, &status_, WNOHANG) == pid_; }
  int exit_code() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_); }

 private:
  pid_t pid_;
  int status_ = 0;
  bool has_ended_ = false;
};

// These functions return 0 if the wait took its whole time, else the error. The time is much longer than the holds take
// on a busy computer, because a process that has ended cannot be held.
constexpr int kWaitMs = 1'000;
int waits_in_epoll() {
  const int epoll = ::epoll_create1(0);
  epoll_event event{};
  return ::epoll_wait(epoll, &event, 1, kWaitMs) == 0 ? 0 : errno;
}

int receives_with_a_timeout() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return errno;
  const timeval limit{kWaitMs / 1000, 0};
  ::setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char byte = 0;
  return ::recv(ends[0], &byte, 1, 0) < 0 && errno == EAGAIN ? 0 : errno;
}

int sleeps() {
  const timespec time{kWaitMs / 1000, 0};
  return ::nanosleep(&time, nullptr) == 0 ? 0 : errno;
}

}  // namespace

TEST_CASE("the registers of a running thread are read, and the thread continues") {
  Child child([]() -> int {
    for (volatile int i = 0;;) i = i + 1;
  });
  for (int i = 0; i < 3; ++i) {
    const HeldThread held = hold_for_a_moment(child.pid(), child.pid());
    REQUIRE(held.obstacle.empty());
    CHECK(held.capture.tid == child.pid());
    CHECK(held.capture.registers.size() == 17);
    CHECK(held.capture.stack.size() > 100);
  }
  CHECK_FALSE(child.has_ended());
}

// A waiting thread is held only if its wait has just begun. Its time-out starts again each time.
TEST_CASE("a system call during which a thread was held ends normally") {
  for (const auto& program : {waits_in_epoll, receives_with_a_timeout, sleeps}) {
    Child child(program);
    for (int i = 0; i < 10; ++i) {
      CHECK(hold_for_a_moment(child.pid(), child.pid()).obstacle.empty());
      ::usleep(5'000);
    }
    while (!child.has_ended()) ::usleep(10'000);
    CHECK(child.exit_code() == 0);
  }
}

TEST_CASE("a process that does not exist cannot be held") {
  Child child([] { return 0; });
  while (!child.has_ended()) ::usleep(1'000);
  CHECK(hold_for_a_moment(child.pid(), child.pid()).obstacle.starts_with("ddplaunch is not permitted to stop it: "));
}
#endif
