// These functions decide where each gradient lies and which gradients are reduced together. They depend only on the
// parameters' sizes and an order, and give the same result on every rank.
#pragma once

#include <ddp/buffer.h>
#include <ddp/distributed_data_parallel.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace ddp::internal {

struct ParameterSize {
  DataType type = DataType::f32;
  std::size_t count = 0;
};

// The gradients of each type lie in one arena. They never move, because programs keep pointers to them.
struct GradientLayout {
  std::vector<std::size_t> first;                                // by parameter: its first element in its type's arena
  std::array<std::size_t, kDataTypes.size()> arena_counts = {};  // by type: number of elements, including padding
  std::size_t alignment = 1;                                     // in bytes; each gradient begins at a multiple of it

  std::size_t arena_count(DataType type) const { return arena_counts[static_cast<std::size_t>(type)]; }
};

// Places the gradients from the last parameter to the first, which is about the order in which backward completes them.
// So a bucket is mostly one piece of memory. Each gradient begins at a multiple of 64 bytes, for vector instructions.
GradientLayout lay_out(std::span<const ParameterSize> parameters);
// Places the gradients from the first to the last and without gaps, as programs keep them in one array.
GradientLayout lay_out_in_order(std::span<const ParameterSize> parameters);

// Describes consecutive elements of an arena.
struct ArenaRange {
  std::size_t first = 0;
  std::size_t count = 0;

  friend bool operator==(const ArenaRange&, const ArenaRange&) = default;
};

struct Bucket {
  DataType type = DataType::f32;
  std::vector<std::size_t> parameters;
  std::vector<ArenaRange> ranges;  // the gradients and the padding between them, in as few pieces as possible

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Returns the numbers from n-1 down to 0.
std::vector<std::size_t> reverse_order(std::size_t n);

// Puts every parameter into exactly one bucket; a bucket holds one type. Parameters are taken in `order`. Each is
// appended to its type's open bucket, which is closed once it holds at least the limit. So a bucket exceeds the limit
// by up to one parameter, as in PyTorch. The first bucket that is closed has the smaller limit. The result holds the
// buckets in the order in which they are closed, then those that are still open. The buckets are reduced in this order.
std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const GradientLayout& layout,
                                 std::span<const std::size_t> order, const BucketOptions& limits);

// The following functions plan small buckets that are sent in the order in which the next forward pass needs them.
//
// Backward completes the last layers first, but forward needs the first layers first. So gradients that are ready late
// are needed early, and overtake those that have not been sent yet: Jayarajan et al., Priority-based parameter
// propagation, arXiv:1905.03960. All ranks must send in the same order. So the order is decided once, from the times of
// the first step, and not while a step runs. It is the order that a priority queue would have produced.

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
