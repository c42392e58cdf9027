// Converts the records of a node to JSON for the coordinator, and back (docs/development/protocol.md, section 7). Text
// that is invalid yields an empty result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/run/ranks/rank_records.h"

namespace ddp::launcher {

struct ShownRecords {
  // When the coordinator asked, by its clock; 0 if it did not. When the node received that, and when it sent this, by
  // the node's clock. All are CLOCK_MONOTONIC in nanoseconds.
  std::uint64_t asked_at = 0;
  std::uint64_t received_at = 0;
  std::uint64_t answered_at = 0;
  bool is_last = false;            // the node's workers have ended, and these are the last records
  std::vector<RankRecords> ranks;  // by the node's clock

  friend bool operator==(const ShownRecords&, const ShownRecords&) = default;
};

std::string show_records(const ShownRecords& shown);
ShownRecords read_records(const std::string& text);

// Adds records to others of the same rank. The groups and names of both are joined.
void append_records(RankRecords& to, const RankRecords& more);

// Divides the records into messages, with at most limits::kShownRecords records in each. The result has one message at
// least. Its first message has the times, and its last one has `is_last`.
std::vector<ShownRecords> divide_records(ShownRecords shown);

}  // namespace ddp::launcher
