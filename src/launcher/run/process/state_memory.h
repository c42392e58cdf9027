// StateMemory is the launcher's side of the memory in which the programs of this node keep their state
// (wire/state_memory_layout.h, docs/development/decisions/0075-survivors-keep-the-state.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "wire/kept_state.h"
#include "wire/state_file.h"

namespace ddp::launcher {

// Describes an entry of these places.
wire::KeptState kept_state_of(const wire::StateEntry& entry, int area, int place);

// Without memory (the default), nothing is kept. What is read from it may be anything that a program wrote: entries
// without a correct check do not count.
class StateMemory {
 public:
  StateMemory() = default;
  // `areas` is the number of the node's workers. If the kernel refuses the memory, there is none.
  explicit StateMemory(int areas);

  // The descriptor for workers, or -1.
  int descriptor() const { return descriptor_.get(); }
  int areas() const { return areas_; }

  // Begins an attempt, while no program runs. Nothing newer remains than the step that the attempt begins with, because
  // the programs overwrite what is oldest. What a rank has of its own of that step is protected from being overwritten.
  void begin(const wire::RestorePlan& plan) const;
  // Says how much memory is left for states: memory_room().
  void say_room() const;
  // Says how long it takes to write what is kept to --image-dir.
  void say_image_time(std::chrono::milliseconds time) const;
  // Asks all programs to keep the state of the last finished step, if it fits.
  void ask() const;
  // Returns whether all of these workers have done so, as far as they can, in this attempt. Workers that keep no state
  // need not.
  bool have_answered(std::span<const int> local_ranks, int attempt) const;
  // Returns what is kept.
  std::vector<wire::KeptState> kept() const;

 private:
  void drop_all_but(const wire::RestorePlan& plan) const;
  void pin(int area, int place) const;

  int areas_ = 0;
  base::UniqueFd descriptor_;
  wire::StateFile file_{-1};
};

}  // namespace ddp::launcher
