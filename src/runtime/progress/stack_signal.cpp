// The handler may run anywhere, also within malloc and with locks held. Apart from system calls, it calls only
// backtrace(), which takes no lock and allocates no memory once it has been called. This holds for the compiler and C
// library that the project requires. The handler writes only into memory that exists. The launcher finds the names.
#include "runtime/progress/stack_signal.h"

#include <execinfo.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "base/text.h"
#include "wire/worker_env.h"

namespace ddp::internal {
namespace {

// A signal handler can only find data that is process-wide.
std::atomic<wire::StatusPageLayout*> answering_page = nullptr;

// Returns the address that the thread executed when the signal came, or 0 if it is not known on this processor.
std::uintptr_t interrupted_at([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
  return 0;
#endif
}

void write_stack(int /*signal*/, siginfo_t* /*info*/, void* context) {
  const int error = errno;
  wire::StatusPageLayout* page = answering_page.load();
  if (page != nullptr && page->writer.load(std::memory_order_relaxed) == ::getpid()) {
    wire::PageStacks& all = page->stacks;
    const std::uint32_t request = all.request.load(std::memory_order_acquire);
    const std::uint32_t place = all.taken.fetch_add(1);
    if (place < wire::kPageStacks) {
      wire::PageStack& stack = all.stacks[place];
      stack.thread = static_cast<std::int32_t>(::syscall(SYS_gettid));
      std::array<void*, wire::kPageFrames + 8> frames;
      const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
      // The handler's own frames are left out.
      const auto* end = frames.data() + std::max(count, 0);
      const auto* first =
          std::find(frames.data(), const_cast<void**>(end), reinterpret_cast<void*>(interrupted_at(context)));
      if (first == end) first = frames.data();
      std::uint32_t depth = 0;
      for (; first != end && depth < wire::kPageFrames; ++first) {
        stack.addresses[depth++] = reinterpret_cast<std::uintptr_t>(*first);
      }
      stack.depth = depth;
      stack.answers.store(request, std::memory_order_release);
    }
  }
  errno = error;
}

}  // namespace

int stack_signal() {
  constexpr int kOfOurs = 10;
  const char* text = std::getenv(wire::env::kStackSignal);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr || *text == '\0') return SIGRTMIN + kOfOurs;
  return static_cast<int>(base::parse_integer(text, 0, SIGRTMAX).value_or(0));
}

void answer_stack_requests(wire::StatusPageLayout* page) {
  const int signal = stack_signal();
  if (page == nullptr || signal == 0 || answering_page.load() != nullptr) return;
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  // This call loads everything that backtrace() needs.
  std::array<void*, 4> frames;
  ::backtrace(frames.data(), static_cast<int>(frames.size()));
  action = {};
  action.sa_sigaction = write_stack;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  answering_page = page;
  if (::sigaction(signal, &action, nullptr) == 0) page->stacks.signal = signal;
}

}  // namespace ddp::internal
