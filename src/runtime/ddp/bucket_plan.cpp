#include "runtime/ddp/bucket_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace ddp::internal {
namespace {

// Returns a part of the bucket. Its parameters keep the bucket's order, which is the order of priority.
Bucket part_of(const Bucket& bucket, const ArenaRange& range, std::span<const ParameterSize> parameters,
               const GradientLayout& layout) {
  Bucket part{bucket.type, {}, {range}};
  for (const std::size_t i : bucket.parameters) {
    const std::size_t first = layout.first[i];
    const bool overlaps = first < range.first + range.count && range.first < first + parameters[i].count;
    if (overlaps) part.parameters.push_back(i);
  }
  return part;
}

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

std::vector<Bucket> cut_into_chunks(std::span<const ParameterSize> parameters, const GradientLayout& layout,
                                    std::span<const std::size_t> order, std::size_t bytes) {
  std::vector<std::size_t> place(parameters.size());  // place of each parameter in `order`
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  std::vector<Bucket> chunks;
  for (Bucket& bucket : plan_buckets(parameters, layout, order, {.first_bytes = bytes, .bytes = bytes})) {
    std::size_t count = 0;
    for (const ArenaRange& range : bucket.ranges) count += range.count;
    const std::size_t most = std::max<std::size_t>(1, bytes / size_of(bucket.type));
    if (count < 2 * most) {
      chunks.push_back(std::move(bucket));
      continue;
    }
    // Chunks consist of whole 64-byte lines, like everything in an arena.
    const std::size_t line = 64 / size_of(bucket.type);
    const std::size_t length = (most + line - 1) / line * line;
    std::vector<Bucket> parts;
    for (const ArenaRange& range : bucket.ranges) {
      for (std::size_t first = 0; first < range.count; first += length) {
        const ArenaRange piece{range.first + first, std::min(length, range.count - first)};
        parts.push_back(part_of(bucket, piece, parameters, layout));
      }
    }
    std::stable_sort(parts.begin(), parts.end(), [&](const Bucket& a, const Bucket& b) {
      return place[a.parameters.front()] < place[b.parameters.front()];
    });
    std::move(parts.begin(), parts.end(), std::back_inserter(chunks));
  }
  return chunks;
}

std::vector<std::size_t> transmission_order(std::span<const Transmission> by_priority) {
  std::vector<std::size_t> order;
  std::vector<bool> is_sent(by_priority.size());
  double now = 0;
  while (order.size() < by_priority.size()) {
    std::size_t next = by_priority.size();
    for (std::size_t i = 0; i < by_priority.size(); ++i) {
      if (is_sent[i]) continue;
      const bool is_first = next == by_priority.size();
      if (by_priority[i].ready <= now) {
        next = i;
        break;
      }
      if (is_first || by_priority[i].ready < by_priority[next].ready) next = i;
    }
    now = std::max(now, by_priority[next].ready) + by_priority[next].length;
    is_sent[next] = true;
    order.push_back(next);
  }
  return order;
}

}  // namespace ddp::internal
