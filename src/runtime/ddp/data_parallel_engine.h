// DataParallelEngine implements DistributedDataParallel. Join, LocalSgd, Accumulation, Optimizer and FrameworkAdapter
// use it too.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ddp/element_math.h"
#include "runtime/ddp/model_exchange.h"
#include "runtime/ddp/parameter_shards.h"
#include "runtime/ddp/reducer.h"

namespace ddp {
class Optimizer;
}  // namespace ddp

namespace ddp::internal {

[[noreturn]] void refuse(const std::string& what);
bool is_on_gpu(std::span<const Tensor> parameters);
ReducerOptions reducer_options(std::span<const Tensor> parameters, const DataParallelOptions& options);

class DataParallelEngine {
 public:
  DataParallelEngine(ProcessGroup group_, std::vector<Tensor> parameters_, DataParallelOptions options)
      : group(std::move(group_)),
        parameters(std::move(parameters_)),
        model_buffers(std::move(options.model_buffers)),
        frozen(std::move(options.frozen)),
        stream(options.stream),
        reducer(group, parameters, reducer_options(parameters, options)) {
    if (!std::holds_alternative<ShardOptimizer>(options.exchange)) return;
    math("ShardOptimizer");  // throws if no step could share the parameters
    shards.emplace(group, parameters, reducer.gradients(), reducer.buckets(), reducer.sizes(), reducer.layout());
  }

  void require_parameter(std::size_t index, const char* function) const {
    if (index < parameters.size()) return;
    refuse(std::string(function) + ": there is no parameter " + std::to_string(index));
  }

  bool is_sharded() const { return shards.has_value(); }
  bool step_began() const { return reducer.began(); }
  bool synchronizes() const { return reducer.step_plan().synchronizes; }

  // Plans the present step, unless it has begun.
  void plan() {
    const bool synchronizes = window_synchronizes && no_sync_levels == 0 && !is_local;
    if (!step_began()) reducer.plan_step({synchronizes, 1.0 / (divisor * static_cast<double>(window_steps))});
  }
  // Plans the next step that begins. If it is synchronised, gradients become the mean over all ranks and `steps` steps.
  void plan_step(bool synchronizes, std::int64_t steps) {
    window_synchronizes = synchronizes;
    window_steps = steps;
    plan();
  }

  // The program computes on this stream from now on.
  void use_stream(Stream other) {
    stream = other;
    reducer.use_stream(other);
  }

  void zero_gradients();
  // Ends the step like finish(), but does not check for parameters that were never marked.
  void finish_step();
  // Takes part in a synchronised step of other ranks. Contributes the gradients that were not synchronised yet, or
  // gradients of 0.
  void shadow_step(std::int64_t steps);
  // Between these calls, steps are undone by Rehearsal and leave no other trace.
  void begin_rehearsal();
  void end_rehearsal();
  void broadcast_parameters(int root) { broadcast_all(group, parameters, root, stream); }

  // Returns the arithmetic for parameters and gradients, in the order of the program's stream. `what` is the caller,
  // for messages.
  ElementMath math(const std::string& what) const { return {group, gpu_stream(), what}; }
  // Returns the program's stream if the parameters are in GPU memory, else no stream.
  Stream gpu_stream() const { return is_on_gpu(parameters) ? stream : Stream(); }

  std::vector<Buffer> owned_gradients() const;
  double sum_over_ranks(double value, const char* name) const;

  ProcessGroup group;
  const std::vector<Tensor> parameters;
  const std::vector<Tensor> model_buffers;
  const std::vector<Tensor> frozen;
  Stream stream;  // the program's present stream, for the tensors in GPU memory
  Reducer reducer;
  std::optional<ParameterShards> shards;  // set only with ShardOptimizer
  std::exception_ptr failure;             // of finish() or wait(); the object is unusable after it

  std::function<void()> step_ended;
  // Join and the wrapper of a framework's modules coordinate through these flags.
  bool is_joined = false;
  bool forward_broadcasts_buffers = false;
  bool is_shadow = false;  // the step that ends is another rank's
  int no_sync_levels = 0;
  bool is_local = false;          // no step is synchronised, and an optimizer may step on the rank's own gradients
  bool has_window = false;        // only one Accumulation may exist, because two would end each other's windows
  double divisor = group.size();  // the mean is the sum over all ranks, divided by this and by window_steps
  bool window_synchronizes = true;
  std::int64_t window_steps = 1;

  std::int64_t finished_steps = 0;
  // Counts the steps since zero_gradients() or the last synchronised step.
  std::int64_t local_steps = 0;
  bool is_synchronized = false;

  std::vector<Optimizer*> optimizers;  // those that live
  bool is_rehearsal = false;
  bool was_synchronized = false;  // before the rehearsal
};

}  // namespace ddp::internal
