// These pure functions compute the steps of optimizers: one step on some elements.
#pragma once

#include <ddp/optimizer.h>

#include <cstdint>

namespace ddp::internal {

// Holds the elements that a step changes, and the optimizer's state for them. All buffers have equally many elements.
// `values` and `gradient` have the same floating-point type. The others are f64 if that type is f64, else f32.
struct UpdatedElements {
  Buffer values;
  ConstBuffer gradient;
  Buffer first;                // momentum of SGD, or m of Adam; empty if the options need none
  Buffer second;               // v of Adam
  Buffer master;               // the values in f32, for f16 and bf16
  double gradient_factor = 1;  // applied in the type of the arithmetic
};

// Returns how many of `first` and `second` the options need.
int moments_of(const Optimizer::Options& options);

// Applies one step. `step` is its number, counted from 1.
void update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements);

// Returns the fault of the options as text, or an empty string if there is none.
std::string find_fault(const Optimizer::Options& options);

}  // namespace ddp::internal
