// StepStatistics shows where the time of synchronised steps went, as measured by the reducer.
#pragma once

#include <cstdint>

namespace ddp {

// Holds means over `steps`; times are in seconds. This is a value type.
struct StepStatistics {
  std::int64_t steps = 0;
  double compute_seconds = 0;        // time from the end of a step's finish() to the beginning of the next one's
  double communication_seconds = 0;  // time in which at least one bucket was in transit
  double exposed_seconds = 0;        // time in finish(), which communication adds visibly to a step
  double bytes = 0;                  // bytes that this rank passed to collectives

  // Returns the share of the communication that computing hid, where 1 means all. It cannot measure how much
  // communication slows down computing if both need the same processors. To measure that, compare the time of steps
  // with and without communication (no_sync()).
  double overlap_ratio() const {
    if (communication_seconds <= 0 || exposed_seconds >= communication_seconds) return 0;
    return 1 - exposed_seconds / communication_seconds;
  }
};

}  // namespace ddp
