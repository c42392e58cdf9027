// RankRecords contains what a rank has recorded: its steps, its collectives and its phases, with their times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/record_ring_layout.h"

namespace ddp::launcher {

struct Record {
  wire::RecordKind kind = wire::RecordKind::none;
  std::uint8_t operation = 0;  // index in wire::kOperationNames; for a phase, in wire::kPhaseNames
  std::uint16_t group = 0;     // index in RankRecords::groups
  std::uint16_t name = 0;      // index in RankRecords::names; 0 if there is none
  std::uint32_t number = 0;
  std::uint64_t begin = 0;  // CLOCK_MONOTONIC of this node, nanoseconds
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const Record&, const Record&) = default;
};

// Represents a group that records refer to. The identity is the same on all ranks of the group.
struct RecordedGroup {
  std::uint64_t identity = 0;
  std::string name;
  int size = 0;

  friend bool operator==(const RecordedGroup&, const RecordedGroup&) = default;
};

struct RankRecords {
  int rank = 0;
  std::string node;                   // empty for this node
  std::uint64_t dropped = 0;          // records lost since the beginning of the attempt
  std::uint64_t clock_error = 0;      // nanoseconds by which the times may be wrong, because another clock took them
  std::vector<RecordedGroup> groups;  // the first one stands for no group
  std::vector<std::string> names;     // the first one is empty
  std::vector<Record> records;        // in the order of their ends, nearly

  friend bool operator==(const RankRecords&, const RankRecords&) = default;
};

// Represents a value that the program has reported with its progress, such as the loss.
struct ProgressValue {
  std::string name;
  double value = 0;

  friend bool operator==(const ProgressValue&, const ProgressValue&) = default;
};

}  // namespace ddp::launcher
