// StateKeeper keeps the state of the last finished step in memory of the launcher, from which the next attempt loads it
// (docs/development/decisions/0075-survivors-keep-the-state.md).
#pragma once

#include <ddp/checkpoint_manager.h>
#include <ddp/process_group.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace ddp::internal {

// Decides after which steps the whole state is copied into memory, so that the copies take at most a share of the time
// (docs/development/decisions/0077-images-for-when-all-die.md). It is pure.
//
// All ranks count the steps since the attempt began, and call agree() with the same numbers, so they make images after
// the same steps. The interval is a power of two.
class ImageInterval {
 public:
  // `share` is the largest share of the time, such as 0.01; 0 makes no images.
  explicit ImageInterval(double share) : share_(share) {}

  bool is_due(std::int64_t steps) const { return share_ > 0 && steps > 0 && steps % every_ == 0; }
  // Returns whether the ranks agree on the interval after this many steps: at powers of two, and after images, but not
  // more often than every 16 steps.
  bool is_reviewed(std::int64_t steps) const;
  // Takes the longest time of a copy and of a step of any rank, and how long it takes to write an image to disk, in
  // seconds. The disk can follow if it needs less than two intervals. Without copies, the interval stays.
  void agree(double copy, double step, double disk);

  std::int64_t every() const { return every_; }

 private:
  double share_;
  std::int64_t every_ = 16;
};

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
