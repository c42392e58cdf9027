// DataParallelEngine implements DistributedDataParallel. Join, LocalSgd, Accumulation, Optimizer and FrameworkAdapter
// use it too.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/ddp/element_math.h"
#include "runtime/ddp/excluded_features.h"
#include "runtime/ddp/model_exchange.h"
#include "runtime/ddp/parameter_shards.h"
#include "runtime/ddp/reducer.h"
#include "runtime/ddp/sync_mode.h"

namespace ddp {
class Optimizer;
}  // namespace ddp

namespace ddp::internal {

[[noreturn]] void refuse(const std::string& what);

// The thread rules are those of DistributedDataParallel. Functions without a comment do what the functions of the same
// names do there.
class DataParallelEngine {
 public:
  // Does not communicate. The caller has checked the arguments (check_model).
  DataParallelEngine(ProcessGroup group, std::vector<Tensor> parameters, DataParallelOptions options);
  DataParallelEngine(const DataParallelEngine&) = delete;
  DataParallelEngine& operator=(const DataParallelEngine&) = delete;

  const ProcessGroup& group() const { return group_; }
  std::span<const Tensor> parameters() const { return parameters_; }
  std::span<const Tensor> model_buffers() const { return model_buffers_; }
  std::span<const Tensor> frozen() const { return frozen_; }
  // Gives access to the gradients and the buckets. Only this class begins and ends steps.
  const Reducer& reducer() const { return reducer_; }
  void reset_statistics() { reducer_.reset_statistics(); }

  // Throws invalid_argument, with `function` as its subject, if there is no such parameter.
  void require_parameter(std::size_t index, const char* function) const;

  // Returns the program's present stream, for the tensors in GPU memory.
  Stream stream() const { return stream_; }
  // Returns the program's stream if the parameters are in GPU memory, else no stream.
  Stream gpu_stream() const;
  // The program computes on this stream from now on.
  void use_stream(Stream stream);
  // Returns the arithmetic for parameters and gradients, in the order of the program's stream. `what` is the caller,
  // for messages.
  ElementMath math(const std::string& what) const { return {group_, gpu_stream(), what}; }

  // Gives all ranks the values of the parameters of rank `root`. broadcast_first_values() gives all ranks those of
  // rank 0 with fewer collectives if it can; it overwrites the gradients, unless the program owns them.
  void broadcast_parameters(int root) { broadcast_all(group_, parameters_, root, stream_); }
  void broadcast_first_values();

  bool is_sharded() const { return shards_.has_value(); }
  std::vector<ParameterPiece> owned() const;
  // Returns the gradients that this rank's optimizer uses, in as few pieces as possible.
  std::vector<Buffer> owned_gradients() const;
  void share_parameters();
  double sum_over_ranks(double value, const char* name) const;

  void zero_gradients();
  void mark_ready(std::size_t index);
  void wait(std::size_t index);
  void finish();
  // Ends the step like finish(), but does not check for parameters that were never marked.
  void finish_step();
  void abandon_step();
  void require_synchronized(std::string_view what) const;
  bool step_began() const { return reducer_.began(); }
  bool synchronizes() const { return reducer_.step_plan().synchronizes; }
  std::int64_t finished_steps() const { return finished_steps_; }
  // Returns the number of steps since zero_gradients() or the last synchronised step.
  std::int64_t local_steps() const { return local_steps_; }

  // Throws invalid_argument if a feature that the program uses excludes this one.
  void require_compatible(Feature asked) const;

  // The following functions change the mode of the present step, or of the next one if the step has begun.
  const SyncMode& mode() const { return mode_; }
  void begin_no_sync() { set(mode_.no_sync_levels, mode_.no_sync_levels + 1); }
  void end_no_sync() { set(mode_.no_sync_levels, mode_.no_sync_levels - 1); }
  void begin_accumulation();
  void end_accumulation();
  // If the step is synchronised, gradients become the mean over all ranks and the window's steps.
  void plan_window(SyncMode::Window window) { set(mode_.window, window); }
  void begin_join() { mode_.is_joined = true; }
  // Gradients become the mean over so many ranks until end_join().
  void divide_by(double ranks) { set(mode_.divisor, ranks); }
  void end_join();
  // Takes part in a synchronised step of other ranks. Contributes the gradients that were not synchronised yet, or
  // gradients of 0.
  void shadow_step(std::int64_t steps);
  // While set, no step is synchronised, and an optimizer may step on the rank's own gradients.
  void set_local(bool is_local) { set(mode_.is_local, is_local); }

  // Between these calls, steps are undone by Rehearsal and leave no other trace.
  void begin_rehearsal();
  void end_rehearsal();
  bool is_rehearsing() const { return before_rehearsal_.has_value(); }

  // Lists the optimizers that live.
  void add_optimizer(Optimizer* optimizer) { optimizers_.push_back(optimizer); }
  void remove_optimizer(Optimizer* optimizer) { std::erase(optimizers_, optimizer); }
  std::span<Optimizer* const> optimizers() const { return optimizers_; }

  // See FrameworkAdapter.
  void on_step_end(std::function<void()> ended) { step_ended_ = std::move(ended); }
  void tell_gradients(std::function<bool(std::size_t parameter)> has_gradient);
  void set_forward_broadcasts_buffers() { forward_broadcasts_buffers_ = true; }
  bool forward_broadcasts_buffers() const { return forward_broadcasts_buffers_; }

 private:
  bool uses(Feature feature) const;
  // Plans the present step, unless it has begun.
  void plan() {
    if (!step_began()) reducer_.plan_step(mode_.plan());
  }
  template <typename T>
  void set(T& state, T value) {
    state = value;
    plan();
  }
  // Calls the function. If it throws, the object is unusable afterwards.
  template <typename Function>
  auto or_fail(const Function& function);

  const ProcessGroup group_;
  const std::vector<Tensor> parameters_;
  const std::vector<Tensor> model_buffers_;
  const std::vector<Tensor> frozen_;
  const bool are_gradients_programs_;
  Stream stream_;
  Reducer reducer_;
  std::optional<ParameterShards> shards_;  // set only with ShardOptimizer
  std::exception_ptr failure_;             // of finish() or wait()

  SyncMode mode_;
  std::int64_t finished_steps_ = 0;
  std::int64_t local_steps_ = 0;
  bool is_synchronized_ = false;          // the gradients are the mean over all ranks
  std::optional<bool> before_rehearsal_;  // is_synchronized_ before the rehearsal that runs

  std::function<void()> step_ended_;
  bool forward_broadcasts_buffers_ = false;
  bool is_shadow_ = false;  // the step that ends is another rank's
  std::vector<Optimizer*> optimizers_;
};

}  // namespace ddp::internal
