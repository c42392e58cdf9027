#include "runtime/ddp/priority_plan.h"

#include <algorithm>
#include <iterator>
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

}  // namespace

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
