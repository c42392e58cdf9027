#include "runtime/progress/worker_progress.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "runtime/progress/board.h"

namespace ddp {

using namespace internal;

namespace {

std::uint64_t nanoseconds(std::chrono::steady_clock::time_point when) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count());
}

// Of the process, since the board has one place for it.
std::mutex place_mutex;
PhasePlace place_now;

// Returns the place before.
PhasePlace enter(const PhasePlace& place) {
  const std::lock_guard lock(place_mutex);
  const PhasePlace before = std::exchange(place_now, place);
  wire::ProgressBoard* board = process_board();
  if (board == nullptr) return before;
  wire::BoardWorker& worker = board->worker;
  const std::uint32_t changes = worker.changes.load(wire::kRelaxed) | 1;
  worker.changes.store(changes, wire::kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  worker.phase = static_cast<std::uint32_t>(place.phase);
  worker.since = nanoseconds(std::chrono::steady_clock::now());
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

Section::Section(Phase phase, std::string_view name, CallSite site) : before_(enter(place_of(phase, name, site))) {}

Section::~Section() {
  enter(before_);
}

void internal::enter_phase(Phase phase) {
  enter(place_of(phase, "", {}));
}

void internal::count_step() {
  if (wire::ProgressBoard* board = process_board()) board->worker.steps.fetch_add(1, wire::kRelaxed);
}

void heartbeat() {
  count_step();
}

void extend(std::chrono::seconds time) {
  wire::ProgressBoard* board = process_board();
  if (board == nullptr) return;
  const std::uint64_t until = nanoseconds(std::chrono::steady_clock::now() + time);
  std::uint64_t now = board->worker.more_time_until.load(wire::kRelaxed);
  while (now < until && !board->worker.more_time_until.compare_exchange_weak(now, until, wire::kRelaxed)) {
  }
}

}  // namespace ddp
