// Where each gradient lies, and which gradients travel together: pure functions of the parameters' sizes and of an
// order, the same on every rank.
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

// The gradients of each type lie in one arena. They never move: programs keep pointers to them.
struct GradientLayout {
  std::vector<std::size_t> first;                                // by parameter: element of its type's arena
  std::array<std::size_t, kDataTypes.size()> arena_counts = {};  // by type: elements, padding included
  std::size_t alignment = 1;                                     // bytes, at multiples of which each gradient begins

  std::size_t arena_count(DataType type) const { return arena_counts[static_cast<std::size_t>(type)]; }
};

// From the last parameter to the first, which is about the order in which backward completes them: so a bucket is
// mostly one piece of memory. Each begins at a multiple of 64 bytes, for vector instructions.
GradientLayout lay_out(std::span<const ParameterSize> parameters);
// From the first to the last and without gaps, as programs keep them in one array.
GradientLayout lay_out_in_order(std::span<const ParameterSize> parameters);

// Elements of an arena.
struct ArenaRange {
  std::size_t first = 0;
  std::size_t count = 0;

  friend bool operator==(const ArenaRange&, const ArenaRange&) = default;
};

struct Bucket {
  DataType type = DataType::f32;
  std::vector<std::size_t> parameters;
  std::vector<ArenaRange> ranges;  // the parameters' gradients and the padding between, in as few pieces as possible

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// 0 … n-1 backwards.
std::vector<std::size_t> reverse_order(std::size_t n);

// Every parameter is in exactly one bucket; a bucket holds one type. Parameters are taken in `order`; each is appended
// to its type's open bucket, which is closed once it holds at least the limit (so a bucket overshoots by up to one
// parameter, as in PyTorch). The first bucket to be closed has the smaller limit. Buckets come in the order in which
// they are closed, then the open rest, and that is the order in which they are reduced.
std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const GradientLayout& layout,
                                 std::span<const std::size_t> order, const BucketOptions& limits);

}  // namespace ddp::internal
