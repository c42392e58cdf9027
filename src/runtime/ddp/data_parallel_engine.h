// DataParallelEngine: what a DistributedDataParallel, and what works on one (Join, LocalSgd, Accumulation, Optimizer,
// FrameworkAdapter), do it with.
#pragma once

#include <ddp/distributed_data_parallel.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ddp/model_exchange.h"
#include "runtime/ddp/parameter_shards.h"
#include "runtime/ddp/reducer.h"

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
    shards.emplace(group, parameters, reducer.gradients(), reducer.buckets(), reducer.sizes(), reducer.layout());
  }

  void require_parameter(std::size_t index, const char* function) const {
    if (index < parameters.size()) return;
    refuse(std::string(function) + ": there is no parameter " + std::to_string(index));
  }

  bool is_sharded() const { return shards.has_value(); }
  bool step_began() const { return reducer.began(); }
  bool synchronizes() const { return reducer.step_plan().synchronizes; }

  // Only steps that have not begun follow it.
  void plan() {
    const bool synchronizes = window_synchronizes && no_sync_levels == 0 && !is_local;
    if (!step_began()) reducer.plan_step({synchronizes, 1.0 / (divisor * static_cast<double>(window_steps))});
  }
  // For the next step to begin. If it is synchronised, gradients become the mean over all ranks and so many steps.
  void plan_step(bool synchronizes, std::int64_t steps) {
    window_synchronizes = synchronizes;
    window_steps = steps;
    plan();
  }

  void zero_gradients();
  // finish() without asking for what was never marked.
  void finish_step();
  // Takes part in a synchronised step of the others, with what was not synchronised yet, or gradients of 0.
  void shadow_step(std::int64_t steps);
  void broadcast_parameters(int root) { broadcast_all(group, parameters, root, stream); }

  void require_host(const char* function) const {
    if (!is_on_gpu(parameters)) return;
    throw Error(ErrorKind::unavailable, std::string(function) +
                                            ": works on gradients in host memory, and these are in GPU memory. Do it "
                                            "with kernels, or with your GPU library, on all gradient(i)");
  }

  std::vector<Buffer> owned_gradients() const;
  double sum_over_ranks(double value, const char* name) const;

  ProcessGroup group;
  const std::vector<Tensor> parameters;
  const std::vector<Tensor> model_buffers;
  const std::vector<Tensor> frozen;
  const Stream stream;  // of what is in GPU memory
  Reducer reducer;
  std::optional<ParameterShards> shards;  // with ShardOptimizer
  std::exception_ptr failure;             // of a finish(): the object is of no use after it

  std::function<void()> step_ended;
  // What Join and a wrapper of a framework's modules know of each other.
  bool is_joined = false;
  bool forward_broadcasts_buffers = false;
  bool is_shadow = false;  // the step that is ending is another rank's
  int no_sync_levels = 0;
  bool is_local = false;          // no step is synchronised, and an optimizer may step on the rank's own gradients
  bool has_window = false;        // of two Accumulations each would end the other's windows
  double divisor = group.size();  // the mean is the sum over all ranks divided by so many, and by the window's steps
  bool window_synchronizes = true;
  std::int64_t window_steps = 1;

  std::int64_t finished_steps = 0;
  // Since zero_gradients() or the last synchronised step.
  std::int64_t local_steps = 0;
  bool is_synchronized = false;
};

}  // namespace ddp::internal
