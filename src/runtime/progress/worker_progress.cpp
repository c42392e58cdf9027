#include "runtime/progress/worker_progress.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "wire/worker_env.h"

namespace ddp {

using namespace internal;

namespace {

// Of the process: a Section has no object that could hold it, and the page has one place for it.
std::mutex place_mutex;
PhasePlace place_now;

// Returns the place before.
PhasePlace enter(const PhasePlace& place) {
  const std::lock_guard lock(place_mutex);
  const PhasePlace before = std::exchange(place_now, place);
  wire::ProgressBoard* board = process_page().memory();
  if (board == nullptr) return before;
  wire::BoardWorker& worker = board->worker;
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

}  // namespace

StatusPage internal::process_page() {
  static const StatusPage page = [] {
    const StatusPage mapped = StatusPage::map(std::getenv(wire::env::kBoard));  // NOLINT(concurrency-mt-unsafe)
    mapped.forget_former_program();
    return mapped;
  }();
  return page;
}

void internal::enter_phase(Phase phase) {
  enter(place_of(phase, "", {}));
}

Section::Section(Phase phase, std::string_view name, CallSite site) : before_(enter(place_of(phase, name, site))) {}

Section::~Section() {
  enter(before_);
}

void heartbeat() {
  process_page().count_step();
}

void extend(std::chrono::seconds time) {
  wire::ProgressBoard* board = process_page().memory();
  if (board != nullptr) raise_to(board->worker.more_time_until, monotonic(std::chrono::steady_clock::now() + time));
}

}  // namespace ddp
