#include "runtime/ddp/parameter_shards.h"

#include <algorithm>
#include <cstring>

namespace ddp::internal {

std::vector<RangePiece> pieces_within(const Bucket& bucket, const ArenaRange& range,
                                      std::span<const ParameterSize> parameters, const GradientLayout& layout) {
  std::vector<RangePiece> result;
  for (const std::size_t i : bucket.parameters) {
    const std::size_t begin = std::max(layout.first[i], range.first);
    const std::size_t end = std::min(layout.first[i] + parameters[i].count, range.first + range.count);
    if (begin < end) result.push_back({i, begin - layout.first[i], begin - range.first, end - begin});
  }
  std::sort(result.begin(), result.end(),
            [](const RangePiece& a, const RangePiece& b) { return a.first_in_range < b.first_in_range; });
  return result;
}

ArenaRange share_of(std::size_t count, DataType type, int rank, int size) {
  const std::size_t line = 64 / size_of(type);
  const std::size_t lines = (count + line - 1) / line;
  const std::size_t share = (lines + static_cast<std::size_t>(size) - 1) / static_cast<std::size_t>(size) * line;
  const std::size_t first = std::min(count, static_cast<std::size_t>(rank) * share);
  return {first, std::min(share, count - first)};
}

ParameterShards::ParameterShards(ProcessGroup& group, std::span<const Tensor> parameters,
                                 std::span<const Tensor> gradients, std::span<const Bucket> plan,
                                 std::span<const ParameterSize> sizes, const GradientLayout& layout)
    : group_(group), parameters_(parameters) {
  for (const Bucket& bucket : plan) {
    for (const ArenaRange& range : bucket.ranges) {
      ranges_.push_back({bucket.type, range, pieces_within(bucket, range, sizes, layout)});
      ArenaRange own = share_of(range.count, bucket.type, group.rank(), group.size());
      own.first += range.first;
      for (const RangePiece& piece : pieces_within(bucket, own, sizes, layout)) {
        const Buffer gradient = gradients[piece.parameter].data.slice(piece.first_in_parameter, piece.count);
        owned_.push_back({piece.parameter, piece.first_in_parameter, values_of(piece), gradient});
      }
    }
  }
}

Buffer ParameterShards::values_of(const RangePiece& piece) const {
  return parameters_[piece.parameter].data.slice(piece.first_in_parameter, piece.count);
}

void ParameterShards::share() {
  for (const Range& range : ranges_) {
    staging_.resize(range.range.count * size_of(range.type));
    const Buffer staging(staging_.data(), range.range.count, range.type);
    const auto place_of = [&](const RangePiece& piece) { return staging.slice(piece.first_in_range, piece.count); };
    const auto share = [&](int rank) {
      const ArenaRange part = share_of(range.range.count, range.type, rank, group_.size());
      return staging.slice(part.first, part.count);
    };
    for (const RangePiece& piece : range.pieces) {
      std::memcpy(place_of(piece).data, values_of(piece).data, place_of(piece).bytes());
    }
    std::vector<Buffer> shares;
    for (int rank = 0; rank < group_.size(); ++rank) shares.push_back(share(rank));
    group_.all_gather(shares, share(group_.rank()), {.timeout = {}, .name = "updated parameters", .stream = {}}).wait();
    for (const RangePiece& piece : range.pieces) {
      std::memcpy(values_of(piece).data, place_of(piece).data, place_of(piece).bytes());
    }
  }
}

}  // namespace ddp::internal
