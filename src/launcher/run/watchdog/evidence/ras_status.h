// Reads NCCL's RAS status, and shows what it says of ranks of which nothing else is known. RAS counts launches, as the
// profiler plug-in does (docs/development/decisions/0074-nccl-says-what-is-launched.md), but neither their order nor
// their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/run/ranks/rank_view.h"

namespace ddp::launcher {

struct RasMember {
  int rank = 0;  // in the communicator
  pid_t pid = 0;
  std::map<std::string, std::uint64_t> launched;  // by function, such as "AllReduce"
  std::string host = {};                          // as RAS calls it; empty if a text does not list the member

  friend bool operator==(const RasMember&, const RasMember&) = default;
};

struct RasCommunicator {
  std::uint64_t hash = 0;
  int size = 0;                    // 0 if a text does not say enough of it
  std::vector<RasMember> members;  // those that answered, and are not being destroyed
  // A status in text lists only members that differ from most others. The others have launched this, by function.
  std::optional<std::map<std::string, std::uint64_t>> unlisted = std::nullopt;
  bool is_still = false;  // the last answer was the same

  friend bool operator==(const RasCommunicator&, const RasCommunicator&) = default;
};
using RasStatus = std::vector<RasCommunicator>;

// Reads the JSON of NCCL 2.28.7 and newer, or the text of an older one. Commas that NCCL 2.28.9 forgets are added. What
// is missing or has another type is left out; the status of a communicator without a hash, too.
base::Result<RasStatus> read_ras_status(std::string_view status);

// Adds to `now` what it leaves out, as it was before: members that did not answer, because they are stopped. In text,
// also the functions and communicators in which all members have caught up with the others. Then sets `is_still`.
void keep_what_is_left_out(const RasStatus& before, RasStatus& now);

// Adds to each rank without groups those of its communicators. If members have made as many calls, but of different
// functions, these are shown as their last calls, unless the counts still change: RAS does not read them all at once. A
// rank is recognised by its pid. In containers, ranks of several nodes may have the same one: then its number in a
// communicator of all ranks counts, or its host, if another rank of that host was recognised. The members that a text
// does not list are known if all ranks of the job are members, in the job's order. Returns whether it has added any.
bool add_launches(const RasStatus& status, std::vector<RankView>& ranks);

// Returns the most that a member has launched, by function.
std::map<std::string, std::uint64_t> greatest_counts(const RasCommunicator& communicator);

// Returns whether a rank runs of which no group is known.
bool has_unknown_rank(const std::vector<RankView>& ranks);

}  // namespace ddp::launcher
