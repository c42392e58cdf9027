// GroupRunner publishes each collective to the other ranks, lets the backend carry it out, and reports why it failed.
#pragma once

#include <ddp/error.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/call/call.h"
#include "runtime/group/operation_queue.h"
#include "runtime/peers/node_area.h"
#include "runtime/progress/group_progress.h"

namespace ddp::internal {

struct GroupDescription;

// The object may outlive the group, if an exception ends the group. There is one runner for collectives, and per peer
// one for sends and one for receives.
class GroupRunner : public CallRunner {
 public:
  GroupRunner(const GroupDescription& description, std::shared_ptr<Backend> backend,
              std::shared_ptr<GroupProgress> progress);

  void called(const Call& call) override { progress_->called(call); }
  void waits(const Call& call, bool begins) override { progress_->waits(call, begins); }
  void waits_with_limit(bool begins) override { progress_->waits_with_limit(begins); }
  void continuation_runs(bool begins) override { progress_->continuation_runs(begins); }
  void polls() override { progress_->polls(); }
  BeginsAhead begins_ahead() const override { return backend_->begins_ahead(); }
  bool begin(std::span<const Call* const> calls) override { return begin(calls, &Backend::begin); }
  bool begin_batch(std::span<const Call* const> calls) override { return begin(calls, &Backend::begin_batch); }
  void host_waits(const Call& call, bool begins) override { backend_->host_waits(call, begins); }
  void join_stream(const Call& call) override { backend_->join_stream(call); }
  void abort() override;
  void run(const Call& call) override;
  std::string describe(const Call& call) const override;
  OperationError::Operation identify(const Call& call) const override;

 private:
  struct Statement;

  using Begin = bool (Backend::*)(std::span<const Call* const> calls);

  bool begin(std::span<const Call* const> calls, Begin function);
  void show(const Call& call);
  NodeChannel::Side* side_of(const Call& transfer) const;
  void compare_all(const Call& call);
  void require_parts_fit(std::span<const Statement> all) const;

  template <typename Action>
  decltype(std::declval<Action>()()) guarded(const Call& call, Action&& action);
  [[noreturn]] void fail(const Call& call, const Error& error);
  Error cause_of(const Call& call, const Error& error) const;
  std::optional<Error> difference(const Call& call) const;
  std::optional<Error> late_peers(const Call& call, const Error& error) const;
  bool has_failed(int rank) const;
  std::optional<Error> dead_peer(const Error& error) const;

  const std::string group_;
  const int rank_;
  const int size_;
  const std::vector<int> world_ranks_;  // set for a sub-group
  const std::shared_ptr<NodeGroup> node_;
  const std::shared_ptr<LostRank> lost_rank_;
  const bool compares_all_;
  const std::shared_ptr<Backend> backend_;
  const std::shared_ptr<GroupProgress> progress_;
  std::atomic<std::uint64_t> shown_ = 0;  // atomic, because begin() and run() may run on two threads
};

}  // namespace ddp::internal
