// Shows the phase of a worker whose program does not say what it does.
#pragma once

#include <cstdint>

#include "wire/status_page_layout.h"

namespace ddp::wire {

// Training begins with the first call, unless the program has shown a phase. `now` is CLOCK_MONOTONIC in nanoseconds.
inline void begin_training(StatusPageLayout& page, std::uint64_t now) {
  PageWorker& worker = page.worker;
  if (worker.phase != 0) return;
  worker.changes.fetch_add(1, std::memory_order_acq_rel);
  worker.phase = kTraining;
  worker.since = now;
  worker.changes.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace ddp::wire
