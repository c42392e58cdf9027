// These types describe one step of an optimizer. The functions for host memory and the kernels for GPUs share them, so
// that both compute the same.
#pragma once

#include <ddp/buffer.h>
#include <ddp/optimizer.h>

#include <cmath>
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

// These are the factors of one step. They are rounded to the type of the arithmetic before they are used.
struct SgdFactors {
  double rate;
  double decay;
  double momentum;
  double kept;   // share of the previous momentum
  double fresh;  // share of the gradient in the momentum
};
struct AdamFactors {
  double rate;
  double root;
  double shrink;
  double decay;
  double beta1;
  double beta2;
  double fresh1;
  double fresh2;
  double epsilon;
};

// `step` is counted from 1.
inline SgdFactors factors_of(const SgdOptions& options, std::int64_t step) {
  const bool is_first = step == 1;
  return {.rate = options.learning_rate,
          .decay = options.weight_decay,
          .momentum = options.momentum,
          .kept = is_first ? 0 : options.momentum,
          .fresh = is_first ? 1 : 1 - options.dampening};
}
inline AdamFactors factors_of(const AdamOptions& options, std::int64_t step) {
  const double first_correction = 1 - std::pow(options.beta1, static_cast<double>(step));
  const double second_correction = 1 - std::pow(options.beta2, static_cast<double>(step));
  return {.rate = options.learning_rate / first_correction,
          .root = std::sqrt(second_correction),
          .shrink = options.decoupled ? 1 - options.learning_rate * options.weight_decay : 1,
          .decay = options.decoupled ? 0 : options.weight_decay,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .fresh1 = 1 - options.beta1,
          .fresh2 = 1 - options.beta2,
          .epsilon = options.epsilon};
}

}  // namespace ddp::internal
