// The arithmetic of optimizers: one step on some elements. Pure.
#pragma once

#include <ddp/optimizer.h>

#include <cstdint>

namespace ddp::internal {

// The elements that a step changes, and the optimizer's memory of them. All have as many elements. `values` and
// `gradient` are of one floating-point type; the others are f64 for f64, else f32.
struct UpdatedElements {
  Buffer values;
  ConstBuffer gradient;
  Buffer first;                // SGD: momentum; Adam: m. Without elements where the options need none.
  Buffer second;               // Adam: v
  Buffer master;               // of f16 and bf16: the values in f32
  double gradient_factor = 1;  // multiplied in the arithmetic's type
};

// How many of `first` and `second` the options need.
int moments_of(const Optimizer::Options& options);

// Step number `step` counts from 1.
void update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements);

// What is wrong with the options; empty if nothing.
std::string find_fault(const Optimizer::Options& options);

}  // namespace ddp::internal
