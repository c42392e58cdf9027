// CollectiveTable adds up the recorded collectives and transfers of all ranks, by group, operation and name, in bounded
// memory. It finds the rank that called each collective last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "launcher/run/ranks/rank_records.h"
#include "launcher/see/view/collective_arrivals.h"
#include "launcher/see/view/history_data.h"
#include "launcher/see/view/quantile_sketch.h"

namespace ddp::launcher {

class CollectiveTable {
 public:
  void add(const RankRecords& records);

  // Returns the rows, that with the longest time of all ranks first.
  std::vector<CollectiveHistory> rows() const;
  std::uint64_t left_out() const { return left_out_; }  // records for which there was no row

 private:
  // Identifies a row: group's identity and name, operation, name, and whether it is a transfer.
  using Key = std::tuple<std::uint64_t, std::string, std::uint8_t, std::string, bool>;
  struct Row {
    int size = 0;
    std::uint64_t calls = 0;  // of all ranks
    std::uint64_t bytes = 0;  // of all calls
    std::uint64_t time = 0;   // of all calls, nanoseconds
    QuantileSketch durations;
    QuantileSketch gpu;
    QuantileSketch transfers;                     // from the last call to the last end
    std::unordered_map<int, std::uint64_t> last;  // by rank: how often it called last
    std::uint64_t matched = 0;
  };
  struct Call {
    int ranks = 0;
    int last_rank = 0;
    std::uint64_t last_begin = 0;
    std::uint64_t last_end = 0;
  };

  Row* row_of(const RankRecords& records, const Record& record);
  void match(Row& row, std::uint64_t group, int rank, const Record& record);
  static CollectiveHistory history_of(const Key& key, const Row& row);

  std::map<Key, Row> rows_;
  std::unordered_map<CollectiveId, Call, CollectiveHash> calls_;  // of which records of some ranks are missing
  std::deque<CollectiveId> order_;                                // of calls_; may contain calls that are complete
  std::uint64_t left_out_ = 0;
};

// Returns the factor by which nccl-tests multiply the algorithm's rate for the rate of the bus:
// https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
double bus_factor(std::string_view operation, int ranks);

// Returns the size of the whole data of an operation, of which each rank records `bytes`.
double whole_bytes(std::string_view operation, int ranks, double bytes);

}  // namespace ddp::launcher
