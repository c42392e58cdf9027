// StateKeeper keeps the state of the last finished step in memory of the launcher, from which the next attempt loads it
// (docs/development/decisions/0075-survivors-keep-the-state.md).
#pragma once

#include <ddp/checkpoint_manager.h>
#include <ddp/process_group.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace ddp::internal {

// Use it from one thread. A thread of its own copies the state when the launcher asks for it.
class StateKeeper {
 public:
  // Returns null if the launcher has no memory for states, or if the group does not have all ranks of the job. The
  // keeper uses the group in load() and finish_step() only.
  static std::unique_ptr<StateKeeper> open(const ProcessGroup& group);
  ~StateKeeper();
  StateKeeper(const StateKeeper&) = delete;
  StateKeeper& operator=(const StateKeeper&) = delete;

  // Returns the step of the kept state with which this attempt begins, or std::nullopt. It is the same on all ranks.
  std::optional<std::int64_t> step() const;
  // Fills the tensors and the values with that state. All ranks call it. Throws mismatch (names the tensor), and
  // unavailable if the memory cannot be read.
  void load(CheckpointState& state);

  // See CheckpointManager.
  void announce_step(std::int64_t step, const CheckpointState& state);
  void finish_step(std::int64_t step, const CheckpointState& state);

 private:
  class Core;
  explicit StateKeeper(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const std::shared_ptr<Core> core_;
};

}  // namespace ddp::internal
