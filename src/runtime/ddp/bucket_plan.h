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

}  // namespace ddp::internal
