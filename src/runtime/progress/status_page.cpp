#include "runtime/progress/status_page.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/text.h"

namespace ddp::internal {
namespace {

// Counts a thread that has called an operation. Until it ends, the thread may make the call for which others wait.
struct CallingThread {
  explicit CallingThread(wire::StatusPageLayout& of) : layout(of) {
    layout.worker.calling_threads.fetch_add(1, wire::kRelaxed);
  }
  // A forked child has the page as well, but must not change the count.
  ~CallingThread() {
    if (layout.writer.load(wire::kRelaxed) == ::getpid()) layout.worker.calling_threads.fetch_sub(1, wire::kRelaxed);
  }
  CallingThread(const CallingThread&) = delete;
  CallingThread& operator=(const CallingThread&) = delete;

  wire::StatusPageLayout& layout;
};

// Holds the waits of this thread that are shown, and the page that shows them. The state belongs to the thread,
// whichever group it waits for.
struct ShownWaits {
  int depth = 0;
  wire::StatusPageLayout* layout = nullptr;

  void show(bool begins) const { layout->worker.waiting_threads.fetch_add(begins ? 1U : ~0U, wire::kRelaxed); }
};
thread_local ShownWaits waits_of_this_thread;

}  // namespace

StatusPage StatusPage::map(const char* descriptor) {
  if (descriptor == nullptr) return {};
  const auto fd = base::parse_integer(descriptor, 0, 1 << 30);
  struct stat status {};
  if (!fd || ::fstat(static_cast<int>(*fd), &status) != 0) return {};
  if (status.st_size != static_cast<off_t>(sizeof(wire::StatusPageLayout))) return {};
  void* memory =
      ::mmap(nullptr, sizeof(wire::StatusPageLayout), PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(*fd), 0);
  if (memory == MAP_FAILED) return {};
  auto* layout = static_cast<wire::StatusPageLayout*>(memory);
  std::int32_t writer = 0;
  const bool is_ours = layout->magic == wire::kPageMagic && layout->version == wire::kPageVersion &&
                       (layout->writer.compare_exchange_strong(writer, ::getpid()) || writer == ::getpid());
  if (is_ours) return StatusPage(layout);
  ::munmap(memory, sizeof(wire::StatusPageLayout));
  return {};
}

void StatusPage::forget_former_program() const {
  if (memory_ == nullptr) return;
  for (wire::PageGroup& group : memory_->groups) group.in_use.store(wire::kPageFree, wire::kRelaxed);
  for (auto* number : {&memory_->awaited_world, &memory_->continuations, &memory_->blocked_threads,
                       &memory_->has_gpu_uuid, &memory_->worker.calling_threads, &memory_->worker.waiting_threads}) {
    number->store(0, wire::kRelaxed);
  }
}

void StatusPage::count_calling_thread() const {
  if (memory_ != nullptr) thread_local const CallingThread here(*memory_);
}

void StatusPage::thread_waits(bool begins) const {
  if (memory_ == nullptr) return;
  count_calling_thread();
  ShownWaits& waits = waits_of_this_thread;
  waits.layout = memory_;
  if (begins ? waits.depth++ == 0 : --waits.depth == 0) waits.show(begins);
}

void StatusPage::thread_blocks(bool begins) const {
  if (memory_ == nullptr) return;
  thread_local const pid_t own = ::gettid();
  if (begins) memory_->worker.blocked_thread.store(own, wire::kRelaxed);
  memory_->blocked_threads.fetch_add(begins ? 1U : ~0U, wire::kRelaxed);
}

ProgramRuns::ProgramRuns() : waits_(std::exchange(waits_of_this_thread.depth, 0)) {
  if (waits_ > 0) waits_of_this_thread.show(/*begins=*/false);
}

ProgramRuns::~ProgramRuns() {
  waits_of_this_thread.depth = waits_;
  if (waits_ > 0) waits_of_this_thread.show(/*begins=*/true);
}

}  // namespace ddp::internal
