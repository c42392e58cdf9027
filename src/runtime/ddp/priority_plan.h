// Buckets that are small and go in the order in which the next forward pass needs them. Pure functions.
//
// Backward completes the last layers first; forward needs the first layers first. What is ready late is needed early,
// and overtakes what has not been sent yet: Jayarajan et al., Priority-based parameter propagation, arXiv:1905.03960.
// All ranks must send in the same order, so the order is not decided while a step runs, but once, from the times of the
// first step: as if a queue by priority had been there.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/ddp/bucket_plan.h"

namespace ddp::internal {

// Buckets of about `bytes` each: parameters in `order`, neighbours in it together, those that are larger in pieces.
std::vector<Bucket> cut_into_chunks(std::span<const ParameterSize> parameters, const GradientLayout& layout,
                                    std::span<const std::size_t> order, std::size_t bytes);

struct Transmission {
  double ready = 0;   // seconds, when it can begin
  double length = 0;  // seconds
};

// The order in which one line sends what is given in the order of priority: whenever it is free, the first that is
// ready; if none is, the next to be ready.
std::vector<std::size_t> transmission_order(std::span<const Transmission> by_priority);

}  // namespace ddp::internal
