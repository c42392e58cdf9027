// Chooses the state with which an attempt begins, from what the nodes keep in memory. The function is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wire/image_files.h"
#include "wire/kept_state.h"

namespace ddp::launcher {

// Describes a node that takes part in the attempt, in the order of the ranks.
struct RestoringNode {
  int first_rank = 0;
  int workers = 0;
  std::vector<wire::KeptState> kept;
};

// What --image-dir has, and when this job has begun (Unix time, ms).
struct KeptImages {
  std::vector<wire::KeptImage> images = {};
  std::int64_t job_began = 0;
};

// Returns the plan of each node, or an empty list if no step is complete. Of the complete steps, the newest one of the
// newest attempt counts, in memory or in an image of this job. If there is none, the newest image counts. A step in
// memory is complete if
// - there is a whole state for each key that its ranks have,
// - each rank has an entry of its own; an early one is enough if another rank has finished the step, and if the random
//   state of no rank has changed after the early entry, and
// - no rank is missing, except that ranks of lost nodes, of which nothing is kept, may be missing if all ranks have one
//   key. They then continue without what they had of their own.
// If the world has another size than that of the state, its ranks begin with the whole state only, if there is one key.
std::vector<wire::RestorePlan> plan_restore(std::span<const RestoringNode> nodes, const KeptImages& on_disk = {});

// Returns what an attempt begins with, such as "the ranks go on after step 7, which they have kept in memory; no step
// is lost". Returns an empty string if it is nothing that was kept.
std::string describe(const wire::RestorePlan& plan);

// Returns whether a rank has finished a step in this attempt.
bool has_finished_step(std::span<const wire::KeptState> kept, int attempt);

}  // namespace ddp::launcher
