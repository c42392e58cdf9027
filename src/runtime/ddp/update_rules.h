// These pure functions compute the steps of optimizers: one step on some elements.
#pragma once

#include <ddp/optimizer.h>

#include <cstdint>

#include "runtime/reduction/optimizer_step.h"

namespace ddp::internal {

// Returns how many of `first` and `second` the options need.
int moments_of(const Optimizer::Options& options);

// Applies one step. `step` is its number, counted from 1.
void update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements);

// Returns the fault of the options as text, or an empty string if there is none.
std::string find_fault(const Optimizer::Options& options);

}  // namespace ddp::internal
