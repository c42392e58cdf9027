// Creates the errors of a rank that waits for others in vain.
#pragma once

#include <ddp/error.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ddp::internal {

// `failed` is true if the rank reported a failure; else it has exited or left the group.
inline Error gone_error(int rank, bool failed) {
  return {ErrorKind::peer_lost,
          "rank " + std::to_string(rank) +
              (failed ? " has failed in this or an earlier operation" : " has exited or left the group"),
          rank};
}

inline void order(std::vector<int>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

// `ranks` holds one or more ranks that have not taken part, in any order.
inline Error late_error(std::vector<int> ranks, std::chrono::milliseconds timeout) {
  order(ranks);
  return {ErrorKind::timeout, base::ranks_text(ranks) + " did not take part within " + base::human_duration(timeout),
          ranks.front()};
}

// Does the same if this rank waits for ranks of other nodes, which may in turn wait for the ranks behind them.
inline Error late_nodes_error(std::vector<int> ranks, std::chrono::milliseconds timeout) {
  order(ranks);
  if (ranks.size() == 1) return late_error(std::move(ranks), timeout);
  return {ErrorKind::timeout, "some of ranks " + base::rank_list(ranks) +
                                  ", on other nodes, did not take part within " + base::human_duration(timeout)};
}

}  // namespace ddp::internal
