// This table says which features of data parallelism exclude each other.
#pragma once

#include <array>
#include <cstdint>

namespace ddp::internal {

enum class Feature : std::uint8_t {
  priority_chunks,
  find_unused,
  shard_optimizer,
  parameter_step,  // Optimizer::step(index)
  no_sync,         // a NoSync lives
  accumulation,    // an Accumulation lives
  open_window,     // Accumulation::begin()
  join,            // a Join lives
  join_without_step,
  joined_step,  // Join::begin_step()
  local_sgd,
  rehearsal,
};

struct ExcludedPair {
  Feature asked;    // the program asks for this feature
  Feature present;  // while it uses this one
  const char* message;
};

inline constexpr std::array kExcludedPairs = {
    ExcludedPair{Feature::priority_chunks, Feature::find_unused,
                 "PriorityChunks cannot be combined with UnusedParameters::find"},
    ExcludedPair{Feature::parameter_step, Feature::shard_optimizer,
                 "Optimizer::step: with ShardOptimizer, all parameters are updated together. Call step()"},
    ExcludedPair{Feature::join_without_step, Feature::shard_optimizer,
                 "Join: with ShardOptimizer every rank owns a part of the parameters, so a rank without data must "
                 "step, too. Pass the optimizer's step to Join."},
    ExcludedPair{Feature::joined_step, Feature::local_sgd,
                 "Join::begin_step: with LocalSgd, ranks step independently, so a rank without data has nothing to "
                 "join. Use only one of the two."},
    ExcludedPair{Feature::local_sgd, Feature::shard_optimizer,
                 "LocalSgd: with ShardOptimizer, no rank can step independently. Use only one of the two."},
    ExcludedPair{Feature::accumulation, Feature::accumulation,
                 "accumulate: an accumulation window is already open. Keep the object that accumulate() returned for "
                 "the whole training, or end it before the next one."},
    ExcludedPair{Feature::open_window, Feature::no_sync,
                 "Accumulation::begin: an accumulation window cannot be synchronised within no_sync(). Remove "
                 "no_sync()."},
    ExcludedPair{Feature::rehearsal, Feature::join,
                 "Rehearsal: a Join exists. Its ranks have batches of different sizes, so they cannot rehearse the "
                 "same last batch."},
    ExcludedPair{Feature::rehearsal, Feature::rehearsal,
                 "Rehearsal: another one is running for the same DistributedDataParallel."},
};

// Returns the message of the first pair that excludes the feature, or null if there is none. `is_present` is called
// with the features that exclude it.
template <typename IsPresent>
const char* find_exclusion(Feature asked, const IsPresent& is_present) {
  for (const ExcludedPair& pair : kExcludedPairs) {
    if (pair.asked == asked && is_present(pair.present)) return pair.message;
  }
  return nullptr;
}

}  // namespace ddp::internal
