// Plans which rank writes which part of which tensor. The function is pure, and its result is the same on every rank.
#pragma once

#include <ddp/buffer.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"

namespace ddp::internal {

// Describes the part of a tensor that a rank has.
struct ShardDescription {
  std::string name;
  DataType type = DataType::f32;
  std::vector<std::int64_t> shape;
  std::size_t first = 0;
  std::size_t count = 0;

  friend bool operator==(const ShardDescription&, const ShardDescription&) = default;
};

// `shards` holds, by rank, the parts that each rank has. The pieces of the result name ranks in place of files. If
// several ranks have the same part, it is divided among them (`divides`), or the lowest of them writes it. Throws
// mismatch if ranks describe a tensor differently. Throws invalid_argument if a rank names a tensor twice, if parts
// overlap, or if elements are missing.
std::map<std::string, ManifestTensor> plan_writing(const std::vector<std::vector<ShardDescription>>& shards,
                                                   bool divides);

// Describes the overlap of a shard [first, first + count) with a piece.
struct Overlap {
  std::size_t first_in_shard = 0;
  std::size_t first_in_piece = 0;
  std::size_t count = 0;  // 0 if there is no overlap

  friend bool operator==(const Overlap&, const Overlap&) = default;
};
Overlap overlap_of(std::size_t first, std::size_t count, const ManifestPiece& piece);

}  // namespace ddp::internal
