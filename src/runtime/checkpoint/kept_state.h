// These functions read what the launcher has kept for this attempt (docs/development/protocol.md, section 11).
#pragma once

#include <ddp/checkpoint_manager.h>
#include <ddp/process_group.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/state_file.h"

namespace ddp::internal {

struct StatePlace {
  int area = -1;
  int place = -1;
};

// What DDP_STATE_MEMORY says.
struct StateInstructions {
  int descriptor = -1;
  int area = 0;
  int areas = 0;
  int rank = 0;
  int world = 0;
  int attempt = 0;
  bool may_restart = false;
  double image_share = 0;            // of the time that images may take; 0 if there are none
  std::optional<std::int64_t> step;  // of the state to begin with
  StatePlace own;
  StatePlace shared;
  StatePlace whole;
  std::vector<std::array<int, 6>> transfers;
  std::string image;  // the directory that has the state instead; empty if it is in memory

  // Returns std::nullopt if the launcher has no memory for states.
  static std::optional<StateInstructions> read();
};

// Fills the tensors and the values with the kept state, and says in the memory that this attempt begins with it. All
// ranks call it. Throws mismatch (names the tensor), and unavailable if the memory cannot be read.
void load_kept_state(const ProcessGroup& group, const StateInstructions& instructions, const wire::StateFile& file,
                     CheckpointState& state);

}  // namespace ddp::internal
