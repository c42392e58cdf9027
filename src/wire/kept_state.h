// These values describe which states the nodes of a job keep in memory, and with which of them an attempt begins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/state_memory_layout.h"

namespace ddp::wire {

// Describes an entry of a node's state memory.
struct KeptState {
  std::int64_t step = 0;
  std::uint64_t bytes = 0;
  std::uint64_t key = 0;
  StateKind kind = StateKind::none;
  int attempt = 0;
  int rank = 0;
  int world = 1;
  int area = 0;
  int place = 0;

  friend bool operator==(const KeptState&, const KeptState&) = default;
};

// Names an entry. If `area` is -1, there is none.
struct StatePlace {
  int area = -1;
  int place = -1;

  friend bool operator==(const StatePlace&, const StatePlace&) = default;
};

// Describes what a rank begins an attempt with. All entries are in its own node's memory once the transfers are done.
struct RankRestore {
  StatePlace own;     // what the rank has of its own
  StatePlace shared;  // an entry of a rank that has finished the step, for what `own` lacks, or if there is no `own`
  StatePlace whole;

  friend bool operator==(const RankRestore&, const RankRestore&) = default;
};

// Before they load, rank `from` sends this entry of its node's memory to rank `to`, which writes it to its node's.
struct StateTransfer {
  int from = 0;
  int to = 0;
  StatePlace from_place;
  StatePlace to_place;
  std::uint64_t bytes = 0;

  friend bool operator==(const StateTransfer&, const StateTransfer&) = default;
};

// Describes with which state a node's ranks begin an attempt. Without ranks, it is none that was kept.
struct RestorePlan {
  int attempt = 0;  // in which the state was kept; -1 if that was an earlier job
  std::int64_t step = 0;
  std::int64_t lost_steps = 0;           // finished steps that have to be repeated
  std::string image;                     // the name of the image in --image-dir that has it; empty if it is in memory
  std::vector<RankRestore> ranks;        // of this node, by local rank
  std::vector<StateTransfer> transfers;  // of all nodes, in the order in which they are done

  friend bool operator==(const RestorePlan&, const RestorePlan&) = default;
};

}  // namespace ddp::wire
