#include "runtime/backend/cpu/rounds.h"

#include <ddp/error.h>

#include <sched.h>

#include <optional>

#include "runtime/backend/backend_errors.h"
#include "runtime/limits.h"
#include "runtime/peers/mismatch_check.h"
#include "runtime/peers/shared_memory.h"

namespace ddp::internal {
namespace {

using Clock = std::chrono::steady_clock;

// Spinning takes about 20 µs. A rank that is about to arrive does so within this time.
constexpr int kSpins = 1000;
// A rank that is a few microseconds of work behind arrives within this time.
constexpr auto kYielding = std::chrono::microseconds(200);

constexpr int kPromptPolls = limits::kLongWait / limits::kNodePoll;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

NodeWait::NodeWait(std::shared_ptr<const NodeGroup> node, const std::atomic<bool>& aborted)
    : node_(std::move(node)), aborted_(aborted), spins_(node_->has_processor_each() ? kSpins : 0) {}

void NodeWait::until(SharedCounter& counter, std::uint32_t target, std::size_t peer, const Call& call,
                     Clock::time_point deadline) const {
  const auto reached = [&] { return has_reached(counter.value.load(std::memory_order_acquire), target); };
  if (reached()) return;
  for (int spin = 0; spin < spins_; ++spin) {
    relax();
    if (reached()) return;
  }
  for (const auto end = Clock::now() + kYielding; Clock::now() < end;) {
    ::sched_yield();
    if (reached()) return;
  }
  counter.sleepers.fetch_add(1, std::memory_order_seq_cst);
  try {
    for (int polls = 0;; ++polls) {
      const std::uint32_t value = counter.value.load(std::memory_order_acquire);
      if (has_reached(value, target)) break;
      futex_wait(counter.value, value, polls < kPromptPolls ? limits::kNodePoll : limits::kNodeLatePoll);
      if (!reached()) check(counter, target, peer, call, deadline);
    }
  } catch (...) {
    counter.sleepers.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
  counter.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void NodeWait::check(const SharedCounter& counter, std::uint32_t target, std::size_t peer, const Call& call,
                    Clock::time_point deadline) const {
  if (aborted_) throw aborted_error();
  if (!is_transfer(call.operation)) compare_calls(*node_, call);
  // In a round, no rank can continue once any rank is gone. So all ranks are checked, not only the awaited one.
  const bool in_round = &counter == &node_->area(peer).arrived;
  std::optional<std::size_t> lost;
  for (std::size_t other = 0; other < node_->size(); ++other) {
    if (other == node_->own() || (!in_round && other != peer) || !node_->gone(other)) continue;
    const SharedCounter& awaited = in_round ? node_->area(other).arrived : counter;
    // The rank may have arrived and left afterwards.
    if (has_reached(awaited.value.load(std::memory_order_acquire), target)) continue;
    // A rank that died without a report is the root cause. Ranks that failed may have failed because of it.
    if (!lost || node_->area(other).state == RankState::working) lost = other;
  }
  if (lost) throw gone_error(node_->rank_of(*lost), node_->area(*lost).state == RankState::failed);
  if (has_reached(counter.value.load(std::memory_order_acquire), target) || Clock::now() < deadline) return;
  throw late_error({node_->rank_of(peer)}, call.timeout);
}

Rounds::Rounds(std::shared_ptr<NodeGroup> node, const std::atomic<bool>& aborted)
    : node_(std::move(node)), wait_(node_, aborted) {}

void Rounds::await(const Call& call) const {
  // Each rank begins with the next rank, so that not all ranks read the same cache line at the same time.
  for (std::size_t step = 1; step < node_->size(); ++step) {
    const std::size_t peer = (node_->own() + step) % node_->size();
    wait_.until(node_->area(peer).arrived, round_, peer, call, deadline_);
  }
}

}  // namespace ddp::internal
