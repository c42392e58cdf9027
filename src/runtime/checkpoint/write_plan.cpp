#include "runtime/checkpoint/write_plan.h"

#include <ddp/error.h>

#include <algorithm>
#include <set>

#include "runtime/group/agreement.h"

namespace ddp::internal {
namespace {

using Range = std::pair<std::size_t, std::size_t>;  // first element and count

struct Holders {
  std::size_t first_rank = 0;  // the first rank that described the tensor
  DataType type = DataType::f32;
  std::vector<std::int64_t> shape;
  std::map<Range, std::vector<std::size_t>> ranks;  // by range, the ranks that have it, ascending
};

std::map<std::string, Holders> holders_of(const std::vector<std::vector<ShardDescription>>& shards) {
  std::map<std::string, Holders> result;
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    std::set<std::string> named;
    for (const ShardDescription& shard : shards[rank]) {
      if (!named.insert(shard.name).second) {
        throw Error(ErrorKind::invalid_argument,
                    "rank " + std::to_string(rank) + " names tensor '" + shard.name + "' twice");
      }
      const auto [place, is_new] = result.try_emplace(shard.name, Holders{rank, shard.type, shard.shape, {}});
      Holders& holders = place->second;
      if (holders.type != shard.type || holders.shape != shard.shape) {
        throw Error(ErrorKind::mismatch, "tensor '" + shard.name + "' is " + describe(holders.type, holders.shape) +
                                             " on rank " + std::to_string(holders.first_rank) + " and " +
                                             describe(shard.type, shard.shape) + " on rank " + std::to_string(rank));
      }
      if (shard.count > 0) holders.ranks[{shard.first, shard.count}].push_back(rank);
    }
  }
  return result;
}

// Each of the ranks that have a range writes a part of it.
void divide(const Range& range, const std::vector<std::size_t>& ranks, std::vector<ManifestPiece>& pieces) {
  const std::size_t share = (range.second + ranks.size() - 1) / ranks.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t begin = std::min(i * share, range.second);
    const std::size_t end = std::min(begin + share, range.second);
    if (begin < end) pieces.push_back({ranks[i], range.first + begin, end - begin});
  }
}

}  // namespace

std::map<std::string, ManifestTensor> plan_writing(const std::vector<std::vector<ShardDescription>>& shards,
                                                   bool divides) {
  std::map<std::string, ManifestTensor> result;
  for (const auto& [name, holders] : holders_of(shards)) {
    ManifestTensor tensor{holders.type, holders.shape, {}};
    const std::size_t elements = elements_of(holders.shape).value();
    std::size_t end = 0;
    for (const auto& [range, ranks] : holders.ranks) {
      const auto refuse = [&end, &tensor_name = name, first = range.first](const char* what) {
        throw Error(ErrorKind::invalid_argument,
                    "element " + std::to_string(std::min(first, end)) + " of tensor '" + tensor_name + "' " + what);
      };
      if (range.first < end) refuse("is in overlapping parts of different ranks");
      if (range.first > end) refuse("is in no rank's part");
      if (divides) {
        divide(range, ranks, tensor.pieces);
      } else {
        tensor.pieces.push_back({ranks.front(), range.first, range.second});
      }
      end = range.first + range.second;
    }
    if (end != elements) {
      throw Error(ErrorKind::invalid_argument, "element " + std::to_string(end) + " of tensor '" + name + "'" +
                                                   (end < elements ? " is in no rank's part" : " does not exist"));
    }
    result.emplace(name, std::move(tensor));
  }
  return result;
}

Overlap overlap_of(std::size_t first, std::size_t count, const ManifestPiece& piece) {
  const std::size_t begin = std::max(first, piece.first);
  const std::size_t end = std::min(first + count, piece.first + piece.count);
  if (begin >= end) return {};
  return {begin - first, begin - piece.first, end - begin};
}

}  // namespace ddp::internal
