// LostRank finds the rank that all ranks of a group name as the cause when they fail, if they are on several nodes.
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

// On one node, every rank sees which ranks have ended. Between nodes, a rank sees only a broken connection. The rank at
// its other end may have given up because of a third rank. So a rank that fails writes the reason into the store before
// it breaks its connections. The first reason counts, but a reason from the lost rank's own node takes precedence. The
// class is thread-safe.
class LostRank {
 public:
  // `store` belongs to the group alone. It must answer within `answers_within`.
  LostRank(std::shared_ptr<const NodeGroup> node, std::shared_ptr<Store> store,
           std::chrono::milliseconds answers_within = limits::kLostAnswer);

  // Returns `failure` with the cause that another rank has reported, else unchanged. This applies to errors of kind
  // `peer_lost` and `timeout`; other errors concern this rank alone. Blocks until the store answers, for at most
  // `answers_within` (plus limits::kLostRankWait if it waits for a report). Later calls give the same answer without
  // waiting. Only the state of this node's ranks is checked again.
  Error agree(const Error& failure);

 private:
  // Returns whether the lost or late rank is on this node, which sees its state.
  bool is_known_here(const Error& failure) const;

  const std::shared_ptr<const NodeGroup> node_;
  const std::shared_ptr<Store> store_;
  const std::chrono::milliseconds answers_within_;
  std::mutex mutex_;
  std::optional<std::string> settled_;
};

}  // namespace ddp::internal
