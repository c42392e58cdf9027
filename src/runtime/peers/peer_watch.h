// PeerWatch checks whether the other ranks still exist. It checks the processes of this node's ranks; the launcher
// reports lost ranks of other nodes. NCCL does not notice when a peer that it reaches over NVLink or shared memory has
// ended.
#pragma once

#include <ddp/version.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/call/call.h"
#include "runtime/peers/node_group.h"

namespace ddp::internal {

// Any thread may use it.
class DDP_EXPORT PeerWatch {  // exported for plug-ins
 public:
  // Watches all ranks of this node, for a wait that needs the ranks themselves.
  explicit PeerWatch(std::shared_ptr<NodeGroup> node) : node_(std::move(node)) {}
  // Watches the ranks that such operations need: `peer` for send and recv, otherwise all ranks of this node. A rank
  // that has completed all of these operations that this rank has called is no loss, however it ended.
  PeerWatch(std::shared_ptr<NodeGroup> node, Operation operation, int peer = -1)
      : node_(std::move(node)), operation_(operation), only_(is_transfer(operation) ? peer : -1) {}

  // Throws `peer_lost` if a rank has been gone for so long that its data would have arrived by now. The call is cheap,
  // because it checks no more often than is useful.
  void check();

 private:
  bool has_done_its_part(std::size_t index) const;

  const std::shared_ptr<NodeGroup> node_;
  const std::optional<Operation> operation_ = {};
  const int only_ = -1;  // the one rank to check, or -1
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_poll_ = std::chrono::steady_clock::now();
  std::map<std::size_t, std::chrono::steady_clock::time_point> gone_since_;
};

}  // namespace ddp::internal
