// Which rank writes which part of which tensor. Pure, and the same on every rank.
#pragma once

#include <ddp/buffer.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"

namespace ddp::internal {

// What a rank has of a tensor.
struct ShardDescription {
  std::string name;
  DataType type = DataType::f32;
  std::vector<std::int64_t> shape;
  std::size_t first = 0;
  std::size_t count = 0;

  friend bool operator==(const ShardDescription&, const ShardDescription&) = default;
};

// By rank: what it has; the result's pieces name ranks in the place of files. What several ranks have alike is divided
// among them (`divides`), or written by the lowest of them. Throws mismatch if ranks describe a tensor differently, and
// invalid_argument if a rank names one twice, if parts overlap, or if elements are missing.
std::map<std::string, ManifestTensor> plan_writing(const std::vector<std::vector<ShardDescription>>& shards,
                                                   bool divides);

// What of a shard [first, first + count) lies in a piece.
struct Overlap {
  std::size_t first_in_shard = 0;
  std::size_t first_in_piece = 0;
  std::size_t count = 0;  // 0: nothing

  friend bool operator==(const Overlap&, const Overlap&) = default;
};
Overlap overlap_of(std::size_t first, std::size_t count, const ManifestPiece& piece);

}  // namespace ddp::internal
