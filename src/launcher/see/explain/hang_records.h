// Decides from the records of all ranks which rank keeps the others waiting. Only what is certain is said.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/see/explain/collective_records.h"

namespace ddp::launcher {

struct HangGroup;
struct HangMember;

enum class HangKind : std::uint8_t {
  none,               // no rank waits
  not_called,         // `culprits` have not called what the other ranks wait in
  mismatch,           // the ranks called different operations, or sizes, under the same number
  all_called,         // all ranks called it, and it does not end
  circular_wait,      // ranks wait for each other in several groups: see `waits`
  cannot_be_decided,  // see `missing`
};

struct CallOfRanks {
  std::vector<int> ranks;
  RecordedCall call;
};

struct HangFinding {
  HangKind kind = HangKind::none;
  std::string group;                // PyTorch's name. Empty if it is unknown
  std::string description;          // such as "default_pg"
  int ranks_in_group = 0;           // as far as they are known
  bool has_ranks_of_group = false;  // the ranks count within the group. Those of the job are unknown
  RecordedCall call;                // that does not end, as a waiting rank called it
  // not_called: have not called it. mismatch: called something else than most ranks, empty if there is no majority.
  std::vector<int> culprits;
  std::vector<int> waiting;
  std::vector<int> not_started;    // all_called: their GPU has not started it, as that of others has
  std::vector<CallOfRanks> calls;  // mismatch: what the ranks called
  bool may_have_failed =
      false;            // not_called: the call has ended on the ranks that "wait", which can't be, unless it failed
  std::string missing;  // what the decision lacks, or what is unknown besides
  std::vector<HangFinding> waits;  // hangs of other groups, whose culprits wait in this one
};

// The world size is that of the job, if it is known.
HangFinding judge_hang(std::span<const CollectiveRecords> records, std::optional<int> world_size);

// The n-th send of a rank to another one belongs to the n-th receive there. Returns what is known about the first send
// or receive of the rank that has not ended, or std::nullopt if there is none.
std::optional<HangFinding> judge_p2p(const HangGroup& group, int rank, const HangMember& member);

// A rank that keeps one group waiting, because it waits in another group itself, is not the culprit. Returns the hang
// at the end of that chain, with those that wait for it. There is at least one.
HangFinding choose_hang(std::vector<HangFinding> findings);

// Returns sentences for users, without a full stop: "rank 1 has not called all_reduce #5 (NumelIn 1024) of group 0
// (default_pg), in which ranks 0, 2, 3 wait". Empty if there is no hang.
std::string hang_text(const HangFinding& finding);

}  // namespace ddp::launcher
