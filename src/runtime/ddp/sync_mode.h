// SyncMode determines which steps are synchronised, and by what their gradients are divided.
#pragma once

#include <cstdint>

namespace ddp::internal {

// Describes the task of a step's finish().
struct StepPlan {
  bool synchronizes = true;
  double factor = 1;  // the mean is this times the sum over all ranks
};

// Holds the states that NoSync, Accumulation, Join and LocalSgd set. Several may hold at once: a step is synchronised
// only if none of them prevents it. This is a value.
struct SyncMode {
  bool is_local = false;         // LocalSgd: an optimizer may step on the rank's own gradients
  int no_sync_levels = 0;        // number of NoSync that live
  bool is_accumulating = false;  // an Accumulation lives; two would end each other's windows
  bool is_joined = false;        // a Join lives and has not ended
  double divisor = 1;            // the mean is the sum over all ranks, divided by this and by the window's steps

  // Describes the accumulation window. Without one, each step is a window of its own.
  struct Window {
    bool synchronizes = true;  // the present step ends the window
    std::int64_t steps = 1;
  };
  Window window = {};

  StepPlan plan() const {
    return {window.synchronizes && no_sync_levels == 0 && !is_local,
            1.0 / (divisor * static_cast<double>(window.steps))};
  }
};

}  // namespace ddp::internal
