#include "runtime/ddp/bucket_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ddp::internal {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t align(std::size_t count, DataType type, std::size_t alignment) {
  const std::size_t elements = std::max<std::size_t>(1, alignment / size_of(type));
  return (count + elements - 1) / elements * elements;
}

// Returns the ranges of a bucket. Ranges that follow each other are merged.
std::vector<ArenaRange> ranges_of(const Bucket& bucket, std::span<const ParameterSize> parameters,
                                  const GradientLayout& layout) {
  std::vector<ArenaRange> pieces;
  for (const std::size_t i : bucket.parameters) pieces.push_back({layout.first[i], parameters[i].count});
  std::sort(pieces.begin(), pieces.end(), [](const ArenaRange& a, const ArenaRange& b) {
    return std::pair(a.first, a.count) < std::pair(b.first, b.count);
  });
  std::vector<ArenaRange> ranges;
  for (const ArenaRange& piece : pieces) {
    if (piece.count == 0) continue;
    if (ranges.empty() ||
        align(ranges.back().first + ranges.back().count, bucket.type, layout.alignment) != piece.first) {
      ranges.push_back(piece);
    } else {
      ranges.back().count = piece.first + piece.count - ranges.back().first;
    }
  }
  return ranges;
}

}  // namespace

GradientLayout lay_out(std::span<const ParameterSize> parameters) {
  GradientLayout layout;
  layout.alignment = kAlignment;
  layout.first.resize(parameters.size());
  for (std::size_t i = parameters.size(); i-- > 0;) {
    std::size_t& end = layout.arena_counts[static_cast<std::size_t>(parameters[i].type)];
    layout.first[i] = end;
    end += align(parameters[i].count, parameters[i].type, kAlignment);
  }
  return layout;
}

GradientLayout lay_out_in_order(std::span<const ParameterSize> parameters) {
  GradientLayout layout;
  for (const auto& [type, count] : parameters) {
    std::size_t& end = layout.arena_counts[static_cast<std::size_t>(type)];
    layout.first.push_back(end);
    end += count;
  }
  return layout;
}

std::vector<std::size_t> reverse_order(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const GradientLayout& layout,
                                 std::span<const std::size_t> order, const BucketOptions& limits) {
  struct Open {
    Bucket bucket;
    std::size_t bytes = 0;
  };
  std::vector<Bucket> closed;
  std::vector<Open> open;  // at most one per type, in the order of first use
  for (const std::size_t i : order) {
    const auto [type, count] = parameters[i];
    auto current =
        std::find_if(open.begin(), open.end(), [wanted = type](const Open& o) { return o.bucket.type == wanted; });
    if (current == open.end()) current = open.insert(open.end(), Open{{type, {}, {}}, 0});
    current->bucket.parameters.push_back(i);
    current->bytes += align(count, type, layout.alignment) * size_of(type);
    if (current->bytes >= (closed.empty() ? limits.first_bytes : limits.bytes)) {
      closed.push_back(std::move(current->bucket));
      open.erase(current);
    }
  }
  for (Open& rest : open) closed.push_back(std::move(rest.bucket));
  for (Bucket& bucket : closed) bucket.ranges = ranges_of(bucket, parameters, layout);
  return closed;
}

}  // namespace ddp::internal
