#include "runtime/ddp/data_parallel_engine.h"

#include <ddp/error.h>

#include <array>

#include "base/text.h"
#include "runtime/group/agreement.h"

namespace ddp::internal {
namespace {

bool are_on_gpu(std::span<const Tensor> parameters) {
  return parameters.front().data.device == DeviceType::cuda;
}

ReducerOptions reducer_options(std::span<const Tensor> parameters, const DataParallelOptions& options) {
  ReducerOptions result;
  if (are_on_gpu(parameters)) result.stream = options.stream;
  result.buckets = options.buckets;
  result.unused = options.unused;
  result.memory = options.gradients;
  result.hook = make_mean_hook();
  if (const auto* chunks = std::get_if<PriorityChunks>(&options.exchange)) {
    result.priority_chunk_bytes = chunks->bytes;
    result.buckets.rebuild = true;
  } else if (std::holds_alternative<ShardOptimizer>(options.exchange)) {
    result.hook = make_shard_hook();
    result.buckets.rebuild = false;
  } else if (const auto* hook = std::get_if<std::shared_ptr<CommunicationHook>>(&options.exchange)) {
    if (*hook) result.hook = *hook;
  }
  return result;
}

}  // namespace

void refuse(const std::string& what) {
  throw Error(ErrorKind::invalid_argument, what);
}

DataParallelEngine::DataParallelEngine(ProcessGroup group, std::vector<Tensor> parameters, DataParallelOptions options)
    : group_(std::move(group)),
      parameters_(std::move(parameters)),
      model_buffers_(std::move(options.model_buffers)),
      frozen_(std::move(options.frozen)),
      are_gradients_programs_(options.gradients.count > 0),
      stream_(options.stream),
      reducer_(group_, parameters_, reducer_options(parameters_, options)),
      mode_{.divisor = static_cast<double>(group_.size())} {
  if (!std::holds_alternative<ShardOptimizer>(options.exchange)) return;
  math("ShardOptimizer");  // throws if no step could share the parameters
  shards_.emplace(group_, parameters_, reducer_.gradients(), reducer_.buckets(), reducer_.sizes(), reducer_.layout());
}

void DataParallelEngine::require_parameter(std::size_t index, const char* function) const {
  if (index < parameters_.size()) return;
  refuse(std::string(function) + ": there is no parameter " + std::to_string(index));
}

Stream DataParallelEngine::gpu_stream() const {
  return are_on_gpu(parameters_) ? stream_ : Stream();
}

void DataParallelEngine::use_stream(Stream stream) {
  stream_ = stream;
  reducer_.use_stream(stream);
}

// A broadcast through the gradients' memory needs fewer collectives. Memory that the program provides is not
// overwritten.
void DataParallelEngine::broadcast_first_values() {
  const bool in_place = are_gradients_programs_ || !ElementMath::is_available(group_, gpu_stream());
  in_place ? broadcast_parameters(0) : reducer_.broadcast_values(parameters_, math("DistributedDataParallel"));
}

std::vector<ParameterPiece> DataParallelEngine::owned() const {
  if (shards_) return shards_->owned();
  std::vector<ParameterPiece> result;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    result.push_back({i, 0, parameters_[i].data, reducer_.gradient(i).data});
  }
  return result;
}

std::vector<Buffer> DataParallelEngine::owned_gradients() const {
  std::vector<Buffer> result;
  if (shards_) {
    for (const ParameterPiece& piece : shards_->owned()) result.push_back(piece.gradient);
    return result;
  }
  for (const DataType type : kDataTypes) {
    if (reducer_.arena(type).count > 0) result.push_back(reducer_.arena(type));
  }
  return result;
}

void DataParallelEngine::share_parameters() {
  if (shards_) shards_->share(math("share_parameters"), gpu_stream());
}

double DataParallelEngine::sum_over_ranks(double value, const char* name) const {
  std::array<double, 1> sum = {value};
  group_.all_reduce(sum, ReduceOp::sum, {.name = name}).wait();
  return sum[0];
}

template <typename Function>
auto DataParallelEngine::or_fail(const Function& function) {
  try {
    return function();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void DataParallelEngine::zero_gradients() {
  if (step_began()) {
    refuse(
        "zero_gradients: gradients of this step were marked ready and may be in flight. End the step with finish(), "
        "or, after an exception in the middle of backward, on all ranks with abandon_step().");
  }
  reducer_.zero();
  is_synchronized_ = false;
  local_steps_ = 0;
}

void DataParallelEngine::mark_ready(std::size_t index) {
  require_parameter(index, "mark_ready");
  if (failure_) std::rethrow_exception(failure_);
  if (reducer_.mark_ready(index)) return;
  refuse("mark_ready: the gradient of " + describe(parameters_[index]) +
         (reducer_.is_static() ? " is complete or not used: with UnusedParameters::static_graph, every step must use "
                                 "the same parameters as often as the first step."
                               : " was already complete in this step. If a step uses the parameter more than once, set "
                                 "UnusedParameters::static_graph.") +
         " End each step with finish(), or a failed step with abandon_step().");
}

void DataParallelEngine::wait(std::size_t index) {
  require_parameter(index, "wait");
  const auto refuse_wait = [&](const char* why) {
    refuse("wait: the gradient of " + describe(parameters_[index]) + " " + why);
  };
  if (failure_) std::rethrow_exception(failure_);
  if (!synchronizes()) refuse_wait("is not averaged in this step (no_sync, accumulate)");
  const bool is_under_way = or_fail([&] { return reducer_.wait(index); });
  if (!is_under_way) refuse_wait("is not in flight. Mark all parameters ready first");
}

void DataParallelEngine::finish() {
  const std::vector<std::size_t> missing = reducer_.missing();
  if (!missing.empty()) {
    std::vector<std::string> names;
    for (const std::size_t index : missing) names.push_back(parameters_[index].name);
    refuse("finish: these parameters were never ready in this step: " + base::join(names, ", ") +
           ". Every rank must call mark_ready() for each. If steps leave "
           "parameters unused, set UnusedParameters::find.");
  }
  finish_step();
}

void DataParallelEngine::finish_step() {
  const bool synchronized = synchronizes();
  or_fail([&] { reducer_.finish(); });
  ++finished_steps_;
  is_synchronized_ = synchronized;
  local_steps_ = synchronized ? 0 : local_steps_ + 1;
  plan();
  if (synchronized && step_ended_) step_ended_();
}

void DataParallelEngine::abandon_step() {
  if (!step_began()) return;
  if (synchronizes()) group_.barrier({.name = "an abandoned step"}).wait();
  reducer_.abandon();
  is_synchronized_ = false;
  plan();
}

void DataParallelEngine::require_synchronized(std::string_view what) const {
  const auto refuse_to = [what](const std::string& why) { refuse(std::string(what) + ": " + why); };
  if (failure_) std::rethrow_exception(failure_);
  if (step_began()) refuse_to("gradients were marked ready, but finish() was not called");
  if (mode_.is_local && local_steps_ > 0) return;
  if (local_steps_ > 0) {
    refuse_to(
        "the gradients are local to this rank, because no_sync() or accumulate() skipped the synchronisation of " +
        base::counted(local_steps_, "step") + ". Step only after a synchronised finish().");
  }
  if (!is_synchronized_) refuse_to("finish() was not called since the gradients were zeroed");
}

bool DataParallelEngine::uses(Feature feature) const {
  switch (feature) {
    case Feature::shard_optimizer:
      return is_sharded();
    case Feature::no_sync:
      return mode_.no_sync_levels > 0;
    case Feature::accumulation:
      return mode_.is_accumulating;
    case Feature::join:
      return mode_.is_joined;
    case Feature::local_sgd:
      return mode_.is_local;
    case Feature::rehearsal:
      return is_rehearsing();
    default:
      return false;
  }
}

void DataParallelEngine::require_compatible(Feature asked) const {
  const char* message = find_exclusion(asked, [this](Feature feature) { return uses(feature); });
  if (message != nullptr) refuse(message);
}

void DataParallelEngine::begin_accumulation() {
  require_compatible(Feature::accumulation);
  mode_.is_accumulating = true;
}

void DataParallelEngine::end_accumulation() {
  mode_.is_accumulating = false;
  plan_window({});
}

void DataParallelEngine::end_join() {
  mode_.is_joined = false;
  divide_by(group_.size());
}

void DataParallelEngine::shadow_step(std::int64_t steps) {
  if (local_steps_ == 0) zero_gradients();
  plan_window({true, steps});
  is_shadow_ = true;
  finish_step();
  is_shadow_ = false;
}

void DataParallelEngine::begin_rehearsal() {
  if (step_began() || local_steps_ > 0) {
    refuse("Rehearsal: the loop begins in the middle of a step or of an accumulation window. End it before the loop.");
  }
  require_compatible(Feature::rehearsal);
  before_rehearsal_ = is_synchronized_;
  reducer_.begin_rehearsal();
}

void DataParallelEngine::end_rehearsal() {
  is_synchronized_ = *std::exchange(before_rehearsal_, std::nullopt);
  local_steps_ = 0;
  reducer_.end_rehearsal();
  plan_window({});
}

// A rank without data still has the gradients of its last step, which do not count in another rank's step.
void DataParallelEngine::tell_gradients(std::function<bool(std::size_t parameter)> has_gradient) {
  reducer_.has_gradient = [this, has_gradient = std::move(has_gradient)](std::size_t parameter) {
    return !is_shadow_ && has_gradient && has_gradient(parameter);
  };
}

}  // namespace ddp::internal
