// NcclMembers describes the ranks of a communicator, which agree on its id before they make it.
#pragma once

#include <ddp/store.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/backend/nccl/nccl_api.h"
#include "runtime/peers/peer_watch.h"

namespace ddp::internal {

// Describes the ranks of a communicator and the limits of its functions.
struct NcclMembers {
  int rank = 0;
  int size = 1;
  int device = 0;
  std::chrono::milliseconds timeout{0};        // limit for making the communicator
  std::chrono::milliseconds closing_limit{0};  // limit for an abort or an orderly end, which is then left alone
  std::function<void()> enter;                 // makes this rank's GPU current for the thread
  const std::atomic<bool>* aborted = nullptr;  // if true, waiting functions throw `aborted`
  std::shared_ptr<PeerWatch> peers;
  std::shared_ptr<PeerWatch> all_ranks;  // all ranks of the group

  // Functions call it while they wait. Throws if the group was aborted or a peer is lost.
  void check_members() const;
  // Functions call it after a failure that a lost rank may have caused. Throws that loss if it shows within a moment.
  void wait_for_reason() const;
};

// Returns the id of a new communicator. All ranks call it. Rank 0 makes the id and puts it into `store` under `key`.
NcclUniqueId agree_on_id(const NcclApi& nccl, const std::shared_ptr<Store>& store, const std::string& key,
                         const NcclMembers& members);

}  // namespace ddp::internal
