#include "runtime/ddp/parameter_shards.h"

#include <algorithm>

#include "base/check.h"
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

Buffer ParameterShards::staging(std::size_t count, DataType type) {
  const DeviceType device = parameters_.front().data.device;
  if (staging_.data() == nullptr) {
    std::size_t bytes = 0;
    for (const Range& range : ranges_) bytes = std::max(bytes, padded_count(range) * size_of(range.type));
    staging_ = group_.allocate(bytes, DataType::u8, device);
  }
  DDP_CHECK(count * size_of(type) <= staging_.bytes(), count, staging_.bytes());
  return {staging_.data(), count, type, device};
}

std::size_t ParameterShards::padded_count(const Range& range) const {
  const auto ranks = static_cast<std::size_t>(group_.size());
  return full_share(range.range.count, range.type, ranks) * ranks;
}

void ParameterShards::share(const ElementMath& math, Stream stream) {
  const CallOptions options{.name = "updated parameters", .stream = stream};
  const auto ranks = static_cast<std::size_t>(group_.size());
  for (const Range& range : ranges_) {
    if (range.range.count == 0 || ranks == 1) continue;
    const bool is_one_parameter = range.pieces.size() == 1 && range.pieces[0].count == range.range.count;
    if (is_one_parameter && padded_count(range) == range.range.count) {
      const Buffer whole = values_of(range.pieces[0]);
      group_.all_gather(whole, share_of(whole, static_cast<std::size_t>(group_.rank()), ranks), options).wait();
    } else {
      share_through_staging(range, math, options);
    }
  }
}

// Padding makes the shares equal, because backends gather equal shares fastest.
void ParameterShards::share_through_staging(const Range& range, const ElementMath& math, const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const std::size_t share = padded_count(range) / ranks;
  const std::size_t own_first = share * static_cast<std::size_t>(group_.rank());
  const Buffer whole = staging(padded_count(range), range.type);
  const auto copy_pieces = [&](bool are_own, const auto& copy) {
    for (const RangePiece& piece : range.pieces) {
      for (std::size_t done = 0; done < piece.count;) {
        // A piece may be in the shares of several ranks.
        const std::size_t place = piece.first_in_range + done;
        const std::size_t count = std::min(piece.count - done, share - place % share);
        const bool is_own = place / share * share == own_first;
        if (is_own == are_own) copy(values_of(piece).slice(done, count), whole.slice(place, count));
        done += count;
      }
    }
  };
  copy_pieces(true, [&](const Buffer& values, const Buffer& staged) { math.copy(values, staged); });
  group_.all_gather(whole, whole.slice(own_first, share), options).wait();
  copy_pieces(false, [&](const Buffer& values, const Buffer& staged) { math.copy(staged, values); });
}

}  // namespace ddp::internal
