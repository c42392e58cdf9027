#include "launcher/see/view/collective_arrivals.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/hash.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

constexpr std::uint64_t in_nanoseconds(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

}  // namespace

CollectiveId id_of(const RecordedGroup& group, std::uint32_t number) {
  if (group.identity != 0) return {group.identity, number};
  base::Fnv1a64 hash;
  hash.update(group.name);
  return {base::mix(hash.value(), static_cast<std::uint64_t>(group.size)), number};
}

std::uint64_t hash_of(const CollectiveId& id) {
  return base::mix(base::mix(1, id.group), id.number);
}

std::optional<std::vector<CollectiveArrival>> CollectiveArrivals::add(const CollectiveId& id, int size,
                                                                      const CollectiveArrival& arrival,
                                                                      std::uint64_t now) {
  forget(now);
  if (size < 2) return std::nullopt;
  auto [entry, is_new] = waiting_.try_emplace(id, Waiting{now, {}});
  if (is_new) order_.push_back({id, now});
  entry->second.arrivals.push_back(arrival);
  ++held_;
  if (entry->second.arrivals.size() < static_cast<std::size_t>(size)) return std::nullopt;
  std::vector<CollectiveArrival> all = std::move(entry->second.arrivals);
  held_ -= all.size();
  waiting_.erase(entry);
  return all;
}

void CollectiveArrivals::forget(std::uint64_t now) {
  while (!order_.empty()) {
    const Entry& oldest = order_.front();
    const auto entry = waiting_.find(oldest.id);
    const bool is_complete = entry == waiting_.end() || entry->second.since != oldest.since;
    const bool is_old = now >= oldest.since + in_nanoseconds(limits::kTraceHeld);
    if (!is_complete && !is_old && held_ < limits::kTraceHeldArrivals) return;
    if (!is_complete) {
      held_ -= entry->second.arrivals.size();
      waiting_.erase(entry);
    }
    order_.pop_front();
  }
}

void CollectiveArrivals::clear() {
  waiting_.clear();
  order_.clear();
  held_ = 0;
}

std::optional<Lateness> lateness_of(std::vector<CollectiveArrival> arrivals) {
  Lateness lateness;
  lateness.last = *std::ranges::max_element(arrivals, {}, &CollectiveArrival::begin);
  std::erase_if(arrivals, [&](const CollectiveArrival& arrival) {
    const std::uint64_t doubt = arrival.clock_error + lateness.last.clock_error;
    // The root of a broadcast waits for no rank. A record without an end may have waited.
    const bool has_left = arrival.end > arrival.begin && arrival.end + doubt < lateness.last.begin;
    return has_left || lateness.last.begin - arrival.begin <= in_nanoseconds(limits::kTraceLeastWait) + doubt;
  });
  if (arrivals.empty()) return std::nullopt;
  std::ranges::sort(arrivals, {}, &CollectiveArrival::begin);
  if (arrivals.size() > limits::kTraceArrows) arrivals.resize(limits::kTraceArrows);
  lateness.waited = std::move(arrivals);
  return lateness;
}

}  // namespace ddp::launcher
