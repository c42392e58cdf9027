#include "runtime/progress/worker_progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/process_stat.h"
#include "base/unique_fd.h"
#include "wire/worker_env.h"

namespace ddp {

using namespace internal;

namespace {

// The place belongs to the process: a PhaseScope has no object that could hold it, and the page has one place for it.
// The same holds for the program's latest step.
std::mutex place_mutex;
PhasePlace place_now;
std::optional<std::uint64_t> step_now;

// Records the phase that ends now. Training is what all other records show.
void record_phase(const PhasePlace& place, std::uint64_t begin, std::uint64_t end) {
  const RecordRing ring = process_ring();
  if (begin == 0 || place.phase == Phase::training || !ring.is_on()) return;
  ring.add({.kind = wire::RecordKind::phase,
            .begin = begin,
            .end = end,
            .operation = static_cast<std::uint8_t>(place.phase),
            .name = place.name.data()});
}

// Returns the previous place.
PhasePlace enter(const PhasePlace& place) {
  const std::lock_guard lock(place_mutex);
  const PhasePlace before = std::exchange(place_now, place);
  wire::StatusPageLayout* layout = process_page().memory();
  if (layout == nullptr) return before;
  wire::PageWorker& worker = layout->worker;
  const std::uint64_t now = monotonic_now();
  record_phase(before, worker.since, now);
  const std::uint32_t changes = worker.changes.load(wire::kRelaxed) | 1;
  worker.changes.store(changes, wire::kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  worker.phase = static_cast<std::uint32_t>(place.phase);
  worker.since = now;
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
  const auto stat = base::read_process_stat(pid);
  return stat ? stat->parent : 0;
}

// Returns the page or the ring of the nearest ancestor that has the descriptor. A program around this one may close the
// descriptor for its child but keep it itself, as Python's subprocess module does.
template <typename Memory>
Memory memory_of_ancestor(const std::string& descriptor) {
  constexpr int kMostAncestors = 16;
  pid_t pid = ::getppid();
  for (int i = 0; i < kMostAncestors && pid > 1; ++i, pid = parent_of(pid)) {
    const base::UniqueFd fd(::open(("/proc/" + std::to_string(pid) + "/fd/" + descriptor).c_str(), O_RDWR | O_CLOEXEC));
    if (fd) return Memory::map(std::to_string(fd.get()).c_str());
  }
  return {};
}

// `variable` names the descriptor.
template <typename Memory>
Memory memory_of_process(const char* variable) {
  const char* descriptor = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (descriptor == nullptr) return {};
  const Memory mapped = Memory::map(descriptor);
  return mapped.memory() == nullptr ? memory_of_ancestor<Memory>(descriptor) : mapped;
}

}  // namespace

StatusPage internal::process_page() {
  static const StatusPage page = [] {
    const auto mapped = memory_of_process<StatusPage>(wire::env::kStatusPage);
    mapped.forget_former_program();
    return mapped;
  }();
  return page;
}

RecordRing internal::process_ring() {
  static const RecordRing ring =
      process_page().memory() == nullptr ? RecordRing() : memory_of_process<RecordRing>(wire::env::kRecordRing);
  return ring;
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
  process_ring().end_step(process_page().count_step());
}

bool should_stop() {
  const wire::StatusPageLayout* layout = process_page().memory();
  return layout != nullptr && layout->stop_request.load(std::memory_order_acquire) != 0;
}

void progress(std::uint64_t step, std::uint64_t total, std::span<const ProgressValue> values) {
  wire::StatusPageLayout* layout = process_page().memory();
  if (layout == nullptr) return;
  layout->progress_total.store(total, wire::kRelaxed);
  layout->progress_done.store(step, wire::kRelaxed);
  layout->other_progress.fetch_add(1, wire::kRelaxed);
  const RecordRing ring = process_ring();
  const std::lock_guard lock(place_mutex);
  if (!values.empty()) ring.show_values(values);
  const auto before = std::exchange(step_now, step);
  // Steps that are counted on the page are recorded by the code that counts them.
  if (layout->worker.steps.load(wire::kRelaxed) > 0 || step == before) return;
  // The first call only says where the next step begins. After a smaller number, the program has begun again.
  if (!before || step < *before) return ring.begin_steps();
  ring.end_step(step);
}

void report_progress(std::uint64_t done, std::uint64_t total) {
  progress(done, total);
}

void request_more_time(std::chrono::seconds time) {
  wire::StatusPageLayout* layout = process_page().memory();
  if (layout != nullptr) raise_to(layout->worker.more_time_until, monotonic(std::chrono::steady_clock::now() + time));
}

}  // namespace ddp
