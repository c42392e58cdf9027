#include "runtime/progress/worker_progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/unique_fd.h"
#include "wire/worker_env.h"

namespace ddp {

using namespace internal;

namespace {

// The place belongs to the process: a PhaseScope has no object that could hold it, and the page has one place for it.
std::mutex place_mutex;
PhasePlace place_now;

// Returns the previous place.
PhasePlace enter(const PhasePlace& place) {
  const std::lock_guard lock(place_mutex);
  const PhasePlace before = std::exchange(place_now, place);
  wire::StatusPageLayout* layout = process_page().memory();
  if (layout == nullptr) return before;
  wire::PageWorker& worker = layout->worker;
  const std::uint32_t changes = worker.changes.load(wire::kRelaxed) | 1;
  worker.changes.store(changes, wire::kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  worker.phase = static_cast<std::uint32_t>(place.phase);
  worker.since = monotonic(std::chrono::steady_clock::now());
  worker.line = place.site.line;
  worker.name = place.name;
  write_end_of(worker.file, place.site.file);
  worker.changes.store(changes + 1, std::memory_order_release);
  return before;
}

PhasePlace place_of(Phase phase, std::string_view name, CallSite site) {
  PhasePlace place{phase, {}, site};
  std::copy_n(name.begin(), std::min(name.size(), place.name.size() - 1), place.name.begin());
  return place;
}

// Returns 0 if there is no parent, or if the parent cannot be determined.
pid_t parent_of(pid_t pid) {
  const std::string stat = base::read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? 0 : std::atoi(stat.c_str() + std::min(name_end + 4, stat.size()));
}

// Returns the page of the nearest ancestor that has the descriptor. A program around this one may close the descriptor
// for its child but keep it itself, as Python's subprocess module does.
StatusPage page_of_ancestor(const std::string& descriptor) {
  constexpr int kMostAncestors = 16;
  pid_t pid = ::getppid();
  for (int i = 0; i < kMostAncestors && pid > 1; ++i, pid = parent_of(pid)) {
    const base::UniqueFd fd(::open(("/proc/" + std::to_string(pid) + "/fd/" + descriptor).c_str(), O_RDWR | O_CLOEXEC));
    if (fd) return StatusPage::map(std::to_string(fd.get()).c_str());
  }
  return {};
}

}  // namespace

StatusPage internal::process_page() {
  static const StatusPage page = [] {
    const char* descriptor = std::getenv(wire::env::kStatusPage);  // NOLINT(concurrency-mt-unsafe)
    StatusPage mapped = StatusPage::map(descriptor);
    if (descriptor != nullptr && mapped.memory() == nullptr) mapped = page_of_ancestor(descriptor);
    mapped.forget_former_program();
    return mapped;
  }();
  return page;
}

void internal::enter_phase(Phase phase) {
  enter(place_of(phase, "", {}));
}

PhaseScope::PhaseScope(Phase phase, std::string_view name, CallSite site)
    : before_(enter(place_of(phase, name, site))) {}

PhaseScope::~PhaseScope() {
  enter(before_);
}

void heartbeat() {
  process_page().count_step();
}

bool should_stop() {
  const wire::StatusPageLayout* layout = process_page().memory();
  return layout != nullptr && layout->stacks.stop_request.load(std::memory_order_acquire) != 0;
}

void report_progress(std::uint64_t done, std::uint64_t total) {
  if (wire::StatusPageLayout* layout = process_page().memory()) {
    layout->stacks.progress_total.store(total, wire::kRelaxed);
    layout->stacks.progress_done.store(done, wire::kRelaxed);
    layout->other_progress.fetch_add(1, wire::kRelaxed);
  }
}

void request_more_time(std::chrono::seconds time) {
  wire::StatusPageLayout* layout = process_page().memory();
  if (layout != nullptr) raise_to(layout->worker.more_time_until, monotonic(std::chrono::steady_clock::now() + time));
}

}  // namespace ddp
