// Reads NCCL's RAS status, and shows what it says of ranks of which nothing else is known. RAS counts launches, as the
// profiler plug-in does (docs/development/decisions/0074-nccl-says-what-is-launched.md), but neither their order nor
// their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/ranks/rank_view.h"

namespace ddp::launcher {

struct RasMember {
  int rank = 0;  // in the communicator
  pid_t pid = 0;
  std::map<std::string, std::uint64_t> launched;  // by function, such as "AllReduce"

  friend bool operator==(const RasMember&, const RasMember&) = default;
};

struct RasCommunicator {
  std::uint64_t hash = 0;
  int size = 0;
  std::vector<RasMember> members;  // those that answered, and are not being destroyed

  friend bool operator==(const RasCommunicator&, const RasCommunicator&) = default;
};
using RasStatus = std::vector<RasCommunicator>;

// Reads the JSON of NCCL 2.28.7 and newer. Commas that NCCL 2.28.9 forgets are added. What is missing or has another
// type is left out; the status of a communicator without a hash, too.
base::Result<RasStatus> read_ras_status(std::string_view json);

// Adds to `now` the members that did not answer this time, as they were before. RAS leaves out those that are stopped.
void keep_silent_members(const RasStatus& before, RasStatus& now);

// Adds to each rank without groups those of its communicators. A rank is recognised by its pid, so ranks of different
// nodes with one pid get none. Returns whether it has added any.
bool add_launches(const RasStatus& status, std::vector<RankView>& ranks);

// Returns whether a rank runs of which no group is known.
bool has_unknown_rank(const std::vector<RankView>& ranks);

}  // namespace ddp::launcher
