// How gradients are put into buckets: a pure function of the parameters' sizes, the same on every rank.
#pragma once

#include <ddp/buffer.h>

#include <cstddef>
#include <span>
#include <vector>

namespace ddp {

struct BucketLimits {
  std::size_t first_bytes = 0;
  std::size_t bytes = 0;
};

struct ParameterSize {
  DataType type = DataType::f32;
  std::size_t count = 0;
};

// Where one parameter's gradient lies inside its bucket.
struct BucketSlot {
  std::size_t parameter = 0;  // index of registration
  std::size_t first = 0;      // element of the bucket where it begins

  friend bool operator==(const BucketSlot&, const BucketSlot&) = default;
};

struct Bucket {
  DataType type = DataType::f32;
  std::size_t count = 0;  // elements, padding included
  std::vector<BucketSlot> slots;

  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Every parameter lies in exactly one bucket; a bucket holds one type. Parameters are taken from the last to the first;
// each is appended to its type's open bucket, which is closed once it holds at least the limit (so a bucket overshoots
// by up to one parameter, as in PyTorch). The first bucket to be closed has the smaller limit. Buckets come in the
// order in which they are closed, then the open rest, and that is the order in which they are reduced. Each gradient
// begins at a multiple of 64 bytes, for vector instructions.
std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const BucketLimits& limits);

}  // namespace ddp
