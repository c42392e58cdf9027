// PeerWatch checks whether the other ranks still exist. It checks the processes of this node's ranks; the launcher
// reports lost ranks of other nodes. NCCL does not notice when a peer that it reaches over NVLink or shared memory has
// ended.
#pragma once

#include <ddp/version.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/peers/node_group.h"

namespace ddp::internal {

// Any thread may use it.
class DDP_EXPORT PeerWatch {  // exported for plug-ins
 public:
  // `only` is the one rank to check, or -1 for all ranks of this node.
  explicit PeerWatch(std::shared_ptr<NodeGroup> node, int only = -1) : node_(std::move(node)), only_(only) {}

  // Throws `peer_lost` if a rank has been gone for so long that its data would have arrived by now. The call is cheap,
  // because it checks no more often than is useful.
  void look();

 private:
  const std::shared_ptr<NodeGroup> node_;
  const int only_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_look_ = std::chrono::steady_clock::now();
  std::map<std::size_t, std::chrono::steady_clock::time_point> gone_since_;
};

}  // namespace ddp::internal
