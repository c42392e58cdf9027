// These pure functions plan small buckets that are sent in the order in which the next forward pass needs them.
//
// Backward completes the last layers first, but forward needs the first layers first. So gradients that are ready late
// are needed early, and overtake those that have not been sent yet: Jayarajan et al., Priority-based parameter
// propagation, arXiv:1905.03960. All ranks must send in the same order. So the order is decided once, from the times of
// the first step, and not while a step runs. It is the order that a priority queue would have produced.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/ddp/bucket_plan.h"

namespace ddp::internal {

// Returns buckets of about `bytes` each, with parameters in `order`. Neighbours in this order are combined, and larger
// parameters are cut into pieces.
std::vector<Bucket> cut_into_chunks(std::span<const ParameterSize> parameters, const GradientLayout& layout,
                                    std::span<const std::size_t> order, std::size_t bytes);

struct Transmission {
  double ready = 0;   // earliest start, in seconds
  double length = 0;  // duration, in seconds
};

// Returns the order in which one link sends the transmissions, which are given in the order of priority. Whenever the
// link is free, it sends the first one that is ready. If none is ready, it sends the next one to become ready.
std::vector<std::size_t> transmission_order(std::span<const Transmission> by_priority);

}  // namespace ddp::internal
