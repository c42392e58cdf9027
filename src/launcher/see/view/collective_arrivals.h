// CollectiveArrivals collects when the ranks of a group have called a collective, until all of them are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "launcher/run/ranks/rank_records.h"

namespace ddp::launcher {

struct CollectiveArrival {
  int rank = 0;
  int thread = 0;                 // the row that shows the collective
  std::uint64_t begin = 0;        // nanoseconds
  std::uint64_t end = 0;          // nanoseconds
  std::uint64_t clock_error = 0;  // nanoseconds

  friend bool operator==(const CollectiveArrival&, const CollectiveArrival&) = default;
};

// Identifies a collective among those of an attempt.
struct CollectiveId {
  std::uint64_t group = 0;
  std::uint32_t number = 0;

  friend bool operator==(const CollectiveId&, const CollectiveId&) = default;
};
CollectiveId id_of(const RecordedGroup& group, std::uint32_t number);
// Returns a number that differs between collectives, almost certainly.
std::uint64_t hash_of(const CollectiveId& id);
struct CollectiveHash {
  std::size_t operator()(const CollectiveId& id) const { return hash_of(id); }
};

class CollectiveArrivals {
 public:
  // Returns all arrivals when this is the last one. A collective is forgotten if it is not complete after
  // limits::kTraceHeld, or if more than limits::kTraceHeldArrivals would be kept. `now` is in nanoseconds.
  std::optional<std::vector<CollectiveArrival>> add(const CollectiveId& id, int size, const CollectiveArrival& arrival,
                                                    std::uint64_t now);
  void clear();

  std::size_t held() const { return held_; }

 private:
  struct Waiting {
    std::uint64_t since;
    std::vector<CollectiveArrival> arrivals;
  };
  struct Entry {
    CollectiveId id;
    std::uint64_t since;
  };

  void forget(std::uint64_t now);

  std::unordered_map<CollectiveId, Waiting, CollectiveHash> waiting_;
  std::deque<Entry> order_;  // by the time of the first arrival; some are complete already
  std::size_t held_ = 0;
};

// Says which rank came last to a collective, and which ranks have waited for it, in the order of their waits.
struct Lateness {
  CollectiveArrival last;
  std::vector<CollectiveArrival> waited;
};

// Returns std::nullopt if no rank has waited for longer than limits::kTraceLeastWait and than the clocks may differ.
// Names at most limits::kTraceArrows ranks.
std::optional<Lateness> lateness_of(std::vector<CollectiveArrival> arrivals);

}  // namespace ddp::launcher
