#include "runtime/ddp/parameter_shards.h"

#include <algorithm>
#include <cstring>

#include "runtime/call/call.h"

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

ParameterShards::ParameterShards(const ProcessGroup& group, std::span<const Tensor> parameters,
                                 std::span<const Tensor> gradients, std::span<const Bucket> plan,
                                 std::span<const ParameterSize> sizes, const GradientLayout& layout)
    : group_(group), parameters_(parameters) {
  const auto own_rank = static_cast<std::size_t>(group.rank());
  const auto ranks = static_cast<std::size_t>(group.size());
  for (const Bucket& bucket : plan) {
    for (const ArenaRange& range : bucket.ranges) {
      ranges_.push_back({bucket.type, range, pieces_within(bucket, range, sizes, layout)});
      const Share own = share_of(range.count, bucket.type, own_rank, ranks);
      for (const RangePiece& piece : pieces_within(bucket, {range.first + own.first, own.count}, sizes, layout)) {
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
  const auto ranks = static_cast<std::size_t>(group_.size());
  for (const Range& range : ranges_) {
    staging_.resize(range.range.count * size_of(range.type));
    const Buffer staging(staging_.data(), range.range.count, range.type);
    const auto place_of = [&](const RangePiece& piece) { return staging.slice(piece.first_in_range, piece.count); };
    std::vector<Buffer> shares;
    for (std::size_t rank = 0; rank < ranks; ++rank) shares.push_back(share_of(staging, rank, ranks));
    for (const RangePiece& piece : range.pieces) {
      std::memcpy(place_of(piece).data, values_of(piece).data, place_of(piece).bytes());
    }
    const Buffer& own = shares[static_cast<std::size_t>(group_.rank())];
    group_.all_gather(shares, own, {.name = "updated parameters"}).wait();
    for (const RangePiece& piece : range.pieces) {
      std::memcpy(values_of(piece).data, place_of(piece).data, place_of(piece).bytes());
    }
  }
}

}  // namespace ddp::internal
