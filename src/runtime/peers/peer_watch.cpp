#include "runtime/peers/peer_watch.h"

#include <ddp/error.h>

#include "runtime/limits.h"

namespace ddp::internal {

void PeerWatch::look() {
  if (!node_) return;
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (now < next_look_) return;
  next_look_ = now + limits::kPeerLook;
  if (const int lost = node_->page().lost_rank(); lost >= 0 && !node_->holds_all()) {
    throw Error(ErrorKind::peer_lost, "ddplaunch reports that rank " + std::to_string(lost) + " of the job has failed");
  }
  for (std::size_t index = 0; index < node_->size(); ++index) {
    const int rank = node_->rank_of(index);
    if (index == node_->own() || (only_ >= 0 && rank != only_) || !node_->gone(index)) continue;
    const auto since = gone_since_.emplace(index, now).first->second;
    // A peer that left in order, or failed in a later collective, may have done its part before.
    const bool left = node_->area(index).state == RankState::left;
    const bool said_so = left || node_->area(index).state == RankState::failed;
    if (said_so && only_ < 0 && node_->has_done_all(index)) continue;
    if (now - since < (left ? limits::kLeftPeerGrace : limits::kLostPeerGrace)) continue;
    throw Error(ErrorKind::peer_lost, "rank " + std::to_string(rank) + (left ? " has left" : " has exited or failed"),
                rank);
  }
}

}  // namespace ddp::internal
