// CheckpointManager keeps the checkpoints of a training run in one directory. It writes each of them atomically.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>
#include <ddp/stream.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Holds the state that a training run needs to continue. The program owns the tensors' memory, and load() fills it in
// place.
struct CheckpointState {
  // Each rank names the tensors that it has: whole tensors, which are equal on all ranks, or parts of tensors divided
  // among the ranks (Optimizer::state). They are in host memory or, with nccl, in GPU memory.
  std::vector<TensorShard> tensors = {};
  // The text is UTF-8 and the same on all ranks. Rank 0's values are saved.
  std::map<std::string, std::string> values = {};
  // Each rank has its own values, such as the state of its random generator.
  std::map<std::string, std::string> rank_values = {};
  // The stream on which the program computes the tensors in GPU memory. By default, it is CUDA's default stream. save()
  // reads the tensors, and load() fills them, in its order.
  Stream stream = {};
};

// All ranks must use the same options.
struct CheckpointOptions {
  enum class Layout : std::uint8_t {
    full,    // rank 0 writes one file with whole tensors, which Python's safetensors reads
    sharded  // every rank writes its own file, with its parts and its share of the tensors that all ranks have
  };
  Layout layout = Layout::full;

  // If true, save() returns when the tensors are copied, and a thread writes the copies. Only one checkpoint is written
  // at a time. The next save() waits for it, and throws the error if writing it failed.
  bool asynchronous = false;

  // After a new checkpoint is complete, only this many are kept. 0 keeps all. Those with the lowest steps are removed.
  // A program that resumes from an earlier checkpoint must remove the later ones first, because they would stay the
  // latest.
  std::int64_t keep_last = 3;

  // Limits how long ranks wait for each other's disks, because a slow disk does not mean a dead rank. The default is 30
  // minutes. Under ddplaunch, which detects hangs itself, it is that of the group's operations, which is no limit.
  std::optional<std::chrono::milliseconds> timeout = {};
};

// A checkpoint is a directory `step-000000001200` with files in safetensors format and a manifest. It is written under
// another name, flushed to disk and renamed. A crash, a full disk or a killed rank at any moment leaves either the
// complete checkpoint or none, and earlier ones unchanged. All ranks must see the same directory.
//
// Only one job at a time may save into a directory. From the first save() on, this object holds a lock of the
// directory, except on a file system without locks. Files of different saves are never taken for one checkpoint.
//
// A checkpoint may be read by any number of ranks, in any layout of the tensors. Each rank reads the parts that it
// names. All functions except step_directory() are collective: all ranks must call them, and all throw the same error
// if one fails. Use it from one thread.
//
//   ddp::CheckpointManager checkpoints("run1", world, {.asynchronous = true});
//   if (const auto step = checkpoints.load_latest(state)) first = *step;
//   …
//   if (step % 100 == 0) checkpoints.save(step, state);
//   checkpoints.wait();
class DDP_EXPORT CheckpointManager {
 public:
  // Makes the directory, but not its parents. Throws unavailable if that is not possible.
  CheckpointManager(std::string directory, const ProcessGroup& group, CheckpointOptions options = {},
                    CallSite site = CallSite::current());
  // Waits for a checkpoint that is being written. An error of that write is lost, so call wait() before.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Saves the state as a checkpoint. Throws invalid_argument for wrong tensors, or for elements that no rank or several
  // ranks have. Throws mismatch if ranks describe a tensor differently, and unavailable for the disk (with the system's
  // reason) and if another job saves into the directory. `step` is 0 or more. An existing checkpoint of this step is
  // replaced.
  void save(std::int64_t step, const CheckpointState& state, CallSite site = CallSite::current());

  // Waits until the saved state is on disk. Throws the error if writing it failed.
  void wait();

  // Returns the newest step whose files are complete and undamaged, or std::nullopt if there is none.
  std::optional<std::int64_t> latest(CallSite site = CallSite::current());
  // Returns the checkpoints that latest() skipped and the reasons, one line each.
  const std::vector<std::string>& damaged() const;

  // Fills state.tensors and replaces the values. rank_values are those that were saved by the rank of the same number.
  // They are empty if there were fewer ranks. Tensors that the checkpoint has and the state does not are ignored.
  // Throws unavailable, corrupt, or mismatch (names the tensor). If it throws, tensors may be partly filled.
  void load(std::int64_t step, CheckpointState& state, CallSite site = CallSite::current());
  // Calls latest(), then load() for that step. If the launcher has kept a later step in memory (finish_step), that one
  // is loaded.
  std::optional<std::int64_t> load_latest(CheckpointState& state, CallSite site = CallSite::current());

  // Says that `step` steps are finished, and what the state is now. The tensors must be the same in all steps. It
  // copies none of them, and takes some microseconds. If another rank is lost later, and ddplaunch may restart the job
  // (--max-restarts), the ranks that are left keep their tensors in memory, and load_latest() of the next attempt loads
  // them. They can do so while they wait for the lost rank in a collective, but not between Optimizer::step() and
  // finish_step(). The tensors are to be changed by one Optimizer::step() per step, or by Optimizer::step(index).
  // Without such a launcher, and for a group that has not all ranks of the job, it does nothing. Tensors in GPU memory
  // must change on the state's stream. The call then waits while the GPU is more than two steps behind, and copies the
  // tensors in host memory, which must be small (docs/reference/in-memory-checkpoints.md). With --image-cost, it copies
  // all tensors after some of the steps, and all ranks must call it, because it is a collective after others. Otherwise
  // it is not collective.
  void finish_step(std::int64_t step, const CheckpointState& state);
  // If the state has rank_values, a program calls it before its gradients are averaged, with the rank_values that
  // finish_step() will get. Otherwise, a rank that is lost after it has contributed its gradients may cost a step more.
  void announce_step(std::int64_t step, const CheckpointState& state);

  // Returns the directory of a step's files, for example "run1/step-000000001200".
  std::string step_directory(std::int64_t step) const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ddp
