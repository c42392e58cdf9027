// Brings the records of all ranks together, by process group.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/see/explain/collective_records.h"
#include "launcher/see/explain/hang_records.h"

namespace ddp::launcher {

struct HangMember {
  std::optional<std::int64_t> last_enqueued;
  std::optional<std::int64_t> last_completed;
  std::vector<RecordedCall> calls;
  bool has_all_calls = false;
  bool is_dump = false;
  bool has_mixed_numbers = false;

  // Returns the number of the first collective that has not ended, if it is known.
  std::optional<std::int64_t> pending() const;
  // Returns the only collective with that number, or nullptr.
  const RecordedCall* call(std::int64_t number) const;
};

struct HangGroup {
  std::string name;         // empty if PyTorch's lines do not name it
  std::string description;  // empty if there is none
  bool is_report = false;   // PyTorch's own report about a group without a name
  // The ranks of the job that belong to the group, or its own ranks if `has_own_ranks`. More may belong to it unless
  // `knows_all_ranks`.
  std::vector<int> ranks;
  bool knows_all_ranks = false;
  bool has_own_ranks = false;
  std::map<int, HangMember> members;  // with records, by rank
  std::vector<int> ranks_of_the_job;  // by rank of the group. Empty if they are unknown
};

// The world size is that of the job, if it is known. Records of groups without a name become one group, except
// PyTorch's reports about all ranks of a group.
std::vector<HangGroup> hang_groups(std::span<const CollectiveRecords> records, std::optional<int> world_size);

// Returns a finding that names the group, and nothing else.
HangFinding finding_about(const HangGroup& group, HangKind kind);

}  // namespace ddp::launcher
