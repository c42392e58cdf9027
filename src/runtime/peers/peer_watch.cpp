#include "runtime/peers/peer_watch.h"

#include <ddp/error.h>

#include "runtime/limits.h"

namespace ddp::internal {

// A peer may have left, failed in a later operation, or died after it had done its part.
bool PeerWatch::has_done_its_part(std::size_t index) const {
  if (operation_ == Operation::send) return node_->has_taken_all(index);
  if (operation_ == Operation::recv) return node_->has_given_all(index);
  // A rank that died without a report may have served the store.
  if (!operation_ && node_->area(index).state == RankState::working) return false;
  return node_->has_done_all(index);
}

void PeerWatch::check() {
  if (!node_) return;
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (now < next_poll_) return;
  next_poll_ = now + limits::kPeerPoll;
  if (const int lost = node_->page().lost_rank(); lost >= 0 && !node_->holds_all()) {
    throw Error(ErrorKind::peer_lost, "ddplaunch reports that rank " + std::to_string(lost) + " of the job has failed");
  }
  for (std::size_t index = 0; index < node_->size(); ++index) {
    const int rank = node_->rank_of(index);
    if (index == node_->own() || (only_ >= 0 && rank != only_) || !node_->gone(index)) continue;
    const auto since = gone_since_.emplace(index, now).first->second;
    if (has_done_its_part(index)) continue;
    const bool left = node_->area(index).state == RankState::left;
    if (now - since < (left ? limits::kLeftPeerGrace : limits::kLostPeerGrace)) continue;
    throw Error(ErrorKind::peer_lost, "rank " + std::to_string(rank) + (left ? " has left" : " has exited or failed"),
                rank);
  }
}

}  // namespace ddp::internal
