// CheckpointManager: the checkpoints of a training in one directory, each whole or not there.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// What a training needs to go on. The tensors' memory is the program's: load() fills it in place.
struct CheckpointState {
  // Each rank names what it has: whole tensors, which all ranks have alike, or its parts of tensors that are divided
  // among the ranks (Optimizer::state). Host memory.
  std::vector<TensorShard> tensors = {};
  // Text in UTF-8. The same on all ranks; rank 0's are saved.
  std::map<std::string, std::string> values = {};
  // Each rank's own, as the state of its random generator.
  std::map<std::string, std::string> rank_values = {};
};

// The same on all ranks.
struct CheckpointOptions {
  enum class Layout : std::uint8_t {
    full,    // rank 0 writes one file with whole tensors: Python's safetensors reads it
    sharded  // every rank writes a file of its own, with its parts and its share of what all ranks have
  };
  Layout layout = Layout::full;

  // save() returns when the tensors are copied; a thread writes the copies. One is under way at a time: the next save()
  // waits for it, and throws what it failed with.
  bool asynchronous = false;

  // Older ones are removed when a new one is there. 0: none is. Old is what has a lower step: whoever goes back to a
  // checkpoint and on from there removes the later ones first, else they stay the latest.
  std::int64_t keep_last = 3;

  // How long ranks wait for each other's disks: a slow one is not a dead rank. Default: 30 minutes; under ddplaunch,
  // which judges itself who hangs, the default of the group's operations, which is no limit.
  std::optional<std::chrono::milliseconds> timeout = {};
};

// A checkpoint is a directory `step-000000001200` with files in safetensors format and a manifest. It is written under
// another name, flushed to disk and renamed: a crash, a full disk or a killed rank at any moment leaves it whole or not
// there, and those before it untouched. All ranks must see the same directory.
//
// A checkpoint may be read by any number of ranks, in any layout of the tensors: each rank reads the parts that it
// names. All functions but step_directory() are collective: all ranks call them, and all throw the same error if one
// fails. One thread.
//
//   ddp::CheckpointManager checkpoints("run1", world, {.asynchronous = true});
//   if (const auto step = checkpoints.load_latest(state)) first = *step;
//   …
//   if (step % 100 == 0) checkpoints.save(step, state);
//   checkpoints.wait();
class DDP_EXPORT CheckpointManager {
 public:
  // Makes the directory (not those above it). Throws unavailable if that is not possible.
  CheckpointManager(std::string directory, const ProcessGroup& group, CheckpointOptions options = {},
                    CallSite site = CallSite::current());
  // Waits for what is being written. What that fails with is lost: call wait() before.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Throws invalid_argument (a fault of the tensors; elements that no rank has, or two), mismatch (ranks describe a
  // tensor differently), unavailable (the disk, with the system's reason). `step` is 0 or more; one that is there
  // already is replaced.
  void save(std::int64_t step, const CheckpointState& state, CallSite site = CallSite::current());

  // Until what was saved is on disk. Throws what that failed with.
  void wait();

  // The newest step whose files are all there and undamaged; nothing if there is none.
  std::optional<std::int64_t> latest(CallSite site = CallSite::current());
  // What latest() passed over, and why: one line each.
  const std::vector<std::string>& damaged() const;

  // Fills state.tensors and replaces the values. rank_values are those that this rank's number saved; empty if there
  // were fewer ranks. Tensors that the checkpoint has and the state does not are ignored. Throws unavailable, corrupt,
  // or mismatch (names the tensor); tensors may be partly filled then.
  void load(std::int64_t step, CheckpointState& state, CallSite site = CallSite::current());
  // latest(), and load() of it.
  std::optional<std::int64_t> load_latest(CheckpointState& state, CallSite site = CallSite::current());

  // Where a step's files are: "run1/step-000000001200".
  std::string step_directory(std::int64_t step) const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ddp
