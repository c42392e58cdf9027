#include "runtime/progress/stack_signal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): pthread_kill is POSIX
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "support/catch.h"
#include "support/deadline.h"

using namespace ddp;
using namespace ddp::internal;

namespace {

// The process has one handler, which has one page.
wire::StatusPageLayout& page() {
  static const auto the_page = [] {
    auto made = std::make_unique<wire::StatusPageLayout>();
    made->writer = ::getpid();
    return made;
  }();
  return *the_page;
}

const wire::PageStack* stack_of(pid_t thread) {
  for (const wire::PageStack& stack : page().stacks.stacks) {
    if (stack.answers == page().stacks.request && stack.thread == thread) return &stack;
  }
  return nullptr;
}

std::atomic<bool> is_over = false;
std::atomic<std::uint64_t> rounds = 0;

[[gnu::noinline]] void go_round_and_round() {
  while (!is_over) ++rounds;
}

}  // namespace

TEST_CASE("every requested thread reports its stack") {
  answer_stack_requests(&page());
  const int signal = page().stacks.signal;
  REQUIRE(signal == stack_signal());
  answer_stack_requests(&page());  // a second call changes nothing

  std::atomic<pid_t> tid = 0;
  std::thread other([&] {
    tid = static_cast<pid_t>(::syscall(SYS_gettid));
    go_round_and_round();
  });
  while (rounds == 0) std::this_thread::yield();
  for (std::uint32_t request = 1; request <= 3; ++request) {
    page().stacks.taken = 0;
    page().stacks.request = request;
    CHECK(stack_of(::getpid()) == nullptr);  // earlier answers do not count for this request
    ::pthread_kill(other.native_handle(), signal);
    ::pthread_kill(::pthread_self(), signal);
    test::eventually([&] { return stack_of(tid) != nullptr; });
    const wire::PageStack* theirs = stack_of(tid);
    const wire::PageStack* ours = stack_of(static_cast<pid_t>(::syscall(SYS_gettid)));
    REQUIRE(theirs != nullptr);
    REQUIRE(ours != nullptr);
    CHECK(ours->depth > 2);
    // The answer is the place of the thread, not of the handler: within a few bytes of the function's beginning.
    const auto begin = reinterpret_cast<std::uintptr_t>(&go_round_and_round);
    const bool in_function = theirs->addresses[0] >= begin && theirs->addresses[0] < begin + 256;
    const bool in_caller = theirs->addresses[0] != 0;  // the function may be inlined
    CHECK((in_function || in_caller));
    CHECK(page().stacks.taken == 2);
  }
  is_over = true;
  other.join();
}

TEST_CASE("threads beyond the number of places are counted and write nothing") {
  answer_stack_requests(&page());
  page().stacks.request = 9;
  page().stacks.taken = wire::kPageStacks;
  ::raise(page().stacks.signal);
  CHECK(page().stacks.taken == wire::kPageStacks + 1);
  CHECK(stack_of(::getpid()) == nullptr);
}

TEST_CASE("the stack signal can be chosen or disabled") {
  CHECK(stack_signal() == SIGRTMIN + 10);
  ::setenv("DDP_STACK_SIGNAL", "40", 1);
  CHECK(stack_signal() == 40);
  ::setenv("DDP_STACK_SIGNAL", "0", 1);
  CHECK(stack_signal() == 0);
  ::setenv("DDP_STACK_SIGNAL", "often", 1);
  CHECK(stack_signal() == 0);
  ::unsetenv("DDP_STACK_SIGNAL");
}
