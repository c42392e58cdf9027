// StepStatistics: where the time of synchronised steps went, as the reducer saw it.
#pragma once

#include <cstdint>

namespace ddp {

// A value: means over `steps`. Seconds.
struct StepStatistics {
  std::int64_t steps = 0;
  double compute_seconds = 0;        // from the end of a step's finish() to the beginning of the next one's
  double communication_seconds = 0;  // in which at least one bucket was under way
  double exposed_seconds = 0;        // in finish(): what communication adds visibly to a step
  double bytes = 0;                  // that this rank gave to collectives

  // The share of the communication that computing hid: 1 is all. It cannot see what communication takes from computing
  // where both want the same processors: for that, compare the time of steps with and without it (no_sync()).
  double overlap_ratio() const {
    if (communication_seconds <= 0 || exposed_seconds >= communication_seconds) return 0;
    return 1 - exposed_seconds / communication_seconds;
  }
};

}  // namespace ddp
