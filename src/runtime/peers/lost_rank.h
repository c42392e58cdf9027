// LostRank: the rank that all ranks of a group name as the cause when they fail, where they are on several nodes.
#pragma once

#include <ddp/error.h>
#include <ddp/store.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/limits.h"
#include "runtime/peers/node_group.h"

namespace ddp::internal {

// On one node everybody sees who has ended. Elsewhere a rank sees a broken connection, and what is at its other end
// may only have given up because of a third. So whoever fails says in the store why, before it breaks its connections:
// the first word counts, and above all that of a rank on the lost one's own node. Thread-safe.
class LostRank {
 public:
  // `store`: of the group alone; it is given so long to answer.
  LostRank(std::shared_ptr<const NodeGroup> node, std::shared_ptr<Store> store,
           std::chrono::milliseconds answers_within = limits::kLostAnswer);

  // `failure` with the cause that another rank has said, else as it is. Of kinds `peer_lost` and `timeout`; others
  // concern this rank alone. Blocks until the store answers, and `answers_within` (and limits::kLostLook where a word
  // must be waited for) if the store does not. If it is called again, it gives the same answer without
  // waiting; only what is seen on this node is looked up anew.
  Error agree(const Error& failure);

 private:
  // The lost or late rank is of this node, which sees what it does.
  bool is_known_here(const Error& failure) const;

  const std::shared_ptr<const NodeGroup> node_;
  const std::shared_ptr<Store> store_;
  const std::chrono::milliseconds answers_within_;
  std::mutex mutex_;
  std::optional<std::string> settled_;
};

}  // namespace ddp::internal
