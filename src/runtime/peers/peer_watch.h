// PeerWatch: whether the other ranks are still there: those of this node by their processes, others by the
// launcher's word. NCCL does not notice when a peer that it reaches over NVLink or shared memory has ended.
#pragma once

#include <ddp/version.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/peers/node_group.h"

namespace ddp::internal {

// Any thread.
class DDP_EXPORT PeerWatch {  // exported for plug-ins
 public:
  // `only`: the one rank to look at; -1: all of this node.
  explicit PeerWatch(std::shared_ptr<NodeGroup> node, int only = -1) : node_(std::move(node)), only_(only) {}

  // Throws `peer_lost` with the rank that has been gone for so long that what it had given would have come by now.
  // Cheap: it looks no more often than is of use.
  void look();

 private:
  const std::shared_ptr<NodeGroup> node_;
  const int only_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_look_ = std::chrono::steady_clock::now();
  std::map<std::size_t, std::chrono::steady_clock::time_point> gone_since_;
};

}  // namespace ddp::internal
