#include "runtime/backend/gloo/gloo_watch.h"

#include <ddp/error.h>

#include <gloo/common/error.h>

#include <algorithm>
#include <utility>

#include "base/thread_name.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

// These times are counted in samples (limits::kGlooPoll).
constexpr int kIdlePolls = 150;
constexpr std::uint64_t kPromptPolls = limits::kLongWait / limits::kGlooPoll;
constexpr std::uint64_t kLostGrace = 1;
// Peers that have left may have sent much data that Gloo's thread has yet to receive.
constexpr std::uint64_t kLeftGrace = limits::kLeftPeerGrace / limits::kGlooPoll;

// No rank sends in this slot.
constexpr std::uint64_t kCanarySlot = ~std::uint64_t{0} >> 1;

// Returns whether the connection of the canary has been closed. The canary is a receive that never completes; Gloo
// fails it when its connection closes. The call does not block, because the wait has been aborted. Gloo checks for an
// aborted wait last, so an error takes precedence.
bool has_heard_of_the_end(gloo::transport::UnboundBuffer& canary) {
  canary.abortWaitRecv();
  try {
    canary.waitRecv(nullptr, std::chrono::milliseconds(1));
    return false;
  } catch (const gloo::Exception&) {
    return true;
  }
}

}  // namespace

GlooWatch::GlooWatch(std::shared_ptr<NodeGroup> node) : node_(std::move(node)), thread_([this] { run(); }) {}

GlooWatch::~GlooWatch() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void GlooWatch::watch_connections(gloo::Context& connections) {
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < connections.size; ++rank) {
    if (rank == connections.rank || (node_ && node_->holds(rank))) continue;
    auto canary = connections.createUnboundBuffer(&canary_memory_, sizeof canary_memory_);
    try {
      canary->recv(rank, kCanarySlot);
      canaries_[rank] = std::move(canary);
    } catch (const gloo::Exception&) {
      gone_[rank] = {polls_, kLostGrace};  // a rank that needs nothing from the others may leave
    }
  }
}

void GlooWatch::leave_connections() {
  const std::lock_guard lock(mutex_);
  canaries_.clear();
}

const GlooWatch::Message& GlooWatch::begin_wait(const void* owner, std::span<const Message> messages, bool once_more,
                                                Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  if (aborted_) throw_aborted();
  const Message* next = &messages.front();
  for (const Message& message : messages) {
    if (gone_.contains(message.peer) && !gone_.contains(next->peer)) next = &message;
  }
  waits_[owner] = {next, messages, polls_, once_more, deadline};
  if (parked_) changed_.notify_all();
  return *next;
}

GlooWatch::End GlooWatch::end_wait(const void* owner, bool arrived) {
  const std::lock_guard lock(mutex_);
  const auto found = waits_.find(owner);
  const Wait wait = found->second;
  waits_.erase(found);
  if (arrived) return End::arrived;
  if (aborted_) throw_aborted();
  if (is_in_vain(wait)) return End::in_vain;
  return Clock::now() >= wait.deadline ? End::late : End::again;
}

void GlooWatch::forget(const void* owner) {
  const std::lock_guard lock(mutex_);
  waits_.erase(owner);
}

void GlooWatch::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  interrupt();
}

bool GlooWatch::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

void GlooWatch::throw_aborted() {
  throw aborted_error();
}

std::optional<GlooWatch::Lost> GlooWatch::lost() const {
  std::optional<Lost> found;
  for (std::size_t peer = 0; node_ && peer < node_->size(); ++peer) {
    if (peer == node_->own() || !node_->gone(peer)) continue;
    const bool owes_nothing = node_->own_area().shown == 0 || node_->has_done_all(peer);
    if (owes_nothing && node_->area(peer).state == RankState::left) continue;  // the peer may leave
    const bool failed = node_->area(peer).state == RankState::failed;
    if (!found || (found->failed && !failed)) found = {node_->rank_of(peer), failed};
  }
  return found;
}

void GlooWatch::check_peers() {
  for (std::size_t index = 0; node_ && index < node_->size(); ++index) {
    if (index == node_->own() || gone_.contains(node_->rank_of(index)) || !node_->gone(index)) continue;
    // The last messages of the peer may still be on their way.
    const bool left = node_->area(index).state == RankState::left;
    gone_[node_->rank_of(index)] = {polls_, left || node_->has_done_all(index) ? kLeftGrace : kLostGrace};
  }
}

// When a canary reports a closed connection, Gloo has received all data that were sent over it before.
void GlooWatch::check_connections() {
  for (const auto& [owner, wait] : waits_) {
    for (const Message& message : wait.messages) {
      const auto canary = canaries_.find(message.peer);
      if (canary == canaries_.end() || gone_.contains(message.peer)) continue;
      if (has_heard_of_the_end(*canary->second)) gone_[message.peer] = {polls_, kLostGrace};
    }
  }
}

bool GlooWatch::is_in_vain(const Wait& wait) const {
  const auto gone = gone_.find(wait.current->peer);
  if (gone == gone_.end()) return false;
  return polls_ - std::max(gone->second.since, wait.since) >= (wait.once_more ? 1 : gone->second.grace);
}
bool GlooWatch::ought_to_wait_for_another(const Wait& wait) const {
  return !gone_.contains(wait.current->peer) &&
         std::any_of(wait.messages.begin(), wait.messages.end(),
                     [&](const Message& message) { return gone_.contains(message.peer); });
}

bool GlooWatch::all_wait_long() const {
  return !waits_.empty() && gone_.empty() &&
         std::ranges::all_of(waits_, [&](const auto& entry) { return polls_ - entry.second.since > kPromptPolls; });
}

// Aborts the waits again at each sample, because Gloo forgets to wake a thread that has just begun to wait.
void GlooWatch::interrupt() {
  for (const auto& [owner, wait] : waits_) {
    const bool late = Clock::now() >= wait.deadline;
    if (!aborted_ && !late && !is_in_vain(wait) && !ought_to_wait_for_another(wait)) continue;
    wait.current->memory->abortWaitRecv();
    wait.current->memory->abortWaitSend();
  }
}

void GlooWatch::run() {
  base::name_this_thread("gloo watch");
  std::unique_lock lock(mutex_);
  int idle_polls = 0;
  while (!closing_) {
    if (idle_polls > kIdlePolls) {
      parked_ = true;
      changed_.wait(lock, [this] { return closing_ || !waits_.empty(); });
      parked_ = false;
      idle_polls = 0;
    }
    changed_.wait_for(lock, all_wait_long() ? limits::kGlooLatePoll : limits::kGlooPoll, [this] { return closing_; });
    idle_polls = waits_.empty() ? idle_polls + 1 : 0;
    if (waits_.empty()) continue;
    ++polls_;
    check_peers();
    check_connections();
    interrupt();
  }
}

}  // namespace ddp::internal
