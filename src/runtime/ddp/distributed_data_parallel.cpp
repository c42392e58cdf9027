#include <ddp/distributed_data_parallel.h>
#include <ddp/error.h>
#include <ddp/gradient_accumulation.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/text.h"
#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_engine.h"
#include "runtime/ddp/model_exchange.h"
#include "runtime/group/agreement.h"

namespace ddp {

using namespace internal;

void internal::refuse(const std::string& what) {
  throw Error(ErrorKind::invalid_argument, what);
}

bool internal::is_on_gpu(std::span<const Tensor> parameters) {
  return parameters.front().data.device == DeviceType::cuda;
}

ReducerOptions internal::reducer_options(std::span<const Tensor> parameters, const DataParallelOptions& options) {
  ReducerOptions result;
  if (is_on_gpu(parameters)) result.stream = options.stream;
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

DistributedDataParallel::DistributedDataParallel(const ProcessGroup& group, std::vector<Tensor> parameters,
                                                 DataParallelOptions options, CallSite site) {
  const CalledFrom here(site);
  check_model(group, parameters, options);
  if (!options.stream) options.stream = nullptr;
  const bool gradients_are_programs = options.gradients.count > 0;
  engine_ = std::make_shared<DataParallelEngine>(group, std::move(parameters), std::move(options));
  DataParallelEngine& self = *engine_;
  // A broadcast through the gradients' memory needs fewer collectives. Memory that the program provides is not
  // overwritten.
  const bool in_place = gradients_are_programs || !ElementMath::is_available(group, self.gpu_stream());
  in_place ? self.broadcast_parameters(0)
           : self.reducer.broadcast_values(self.parameters, self.math("DistributedDataParallel"));
  broadcast_all(group, self.frozen, 0, self.stream);
  broadcast_buffers();
}

DistributedDataParallel::~DistributedDataParallel() = default;

const ProcessGroup& DistributedDataParallel::group() const {
  return engine_->group;
}

std::span<const Tensor> DistributedDataParallel::parameters() const {
  return engine_->parameters;
}

const Tensor& Parameter::values() const {
  return data_parallel_->parameters()[index_];
}
Buffer Parameter::gradient() const {
  return data_parallel_->gradient(index_);
}
void Parameter::mark_ready(CallSite site) const {
  data_parallel_->mark_ready(index_, site);
}
void Parameter::wait() const {
  data_parallel_->wait(index_);
}

Parameter DistributedDataParallel::parameter(std::size_t index) {
  engine_->require_parameter(index, "parameter");
  return {*this, index};
}

Parameter DistributedDataParallel::parameter(std::string_view name) {
  const auto found = std::ranges::find(engine_->parameters, name, &Tensor::name);
  if (found == engine_->parameters.end()) {
    std::vector<std::string> names;
    for (const Tensor& parameter : engine_->parameters) names.push_back("'" + parameter.name + "'");
    refuse("parameter: there is no parameter '" + std::string(name) + "'; the parameters are " +
           base::join(names, ", "));
  }
  return {*this, static_cast<std::size_t>(found - engine_->parameters.begin())};
}

Buffer DistributedDataParallel::gradient(std::size_t index) const {
  engine_->require_parameter(index, "gradient");
  return engine_->reducer.gradient(index).data;
}

void DistributedDataParallel::zero_gradients() {
  engine_->zero_gradients();
}

void DataParallelEngine::zero_gradients() {
  if (step_began()) {
    refuse(
        "zero_gradients: gradients of this step were marked ready and may be in flight. End the step with finish(), "
        "or, "
        "after an exception in the middle of backward, on all ranks with abandon_step().");
  }
  reducer.zero();
  is_synchronized = false;
  local_steps = 0;
}

void DistributedDataParallel::mark_ready(std::size_t index, CallSite site) {
  const CalledFrom here(site);
  engine_->require_parameter(index, "mark_ready");
  if (engine_->failure) std::rethrow_exception(engine_->failure);
  if (!engine_->reducer.mark_ready(index)) {
    refuse("mark_ready: the gradient of " + describe(engine_->parameters[index]) +
           (engine_->reducer.is_static()
                ? " is complete or not used: with UnusedParameters::static_graph, every step must use the same "
                  "parameters as often as the first step."
                : " was already complete in this step. If a step uses the parameter more than once, set "
                  "UnusedParameters::static_graph.") +
           " End each step with finish(), or a failed step with abandon_step().");
  }
}

void DistributedDataParallel::wait(std::size_t index) {
  engine_->require_parameter(index, "wait");
  const auto refuse_wait = [&](const char* why) {
    refuse("wait: the gradient of " + describe(engine_->parameters[index]) + " " + why);
  };
  if (engine_->failure) std::rethrow_exception(engine_->failure);
  if (!synchronizes()) refuse_wait("is not averaged in this step (no_sync, accumulate)");
  bool is_under_way = false;
  try {
    is_under_way = engine_->reducer.wait(index);
  } catch (...) {
    engine_->failure = std::current_exception();
    throw;
  }
  if (!is_under_way) refuse_wait("is not in flight. Mark all parameters ready first");
}

void DistributedDataParallel::finish(CallSite site) {
  const CalledFrom here(site);
  const std::vector<std::size_t> missing = engine_->reducer.missing();
  if (!missing.empty()) {
    std::vector<std::string> names;
    for (const std::size_t index : missing) names.push_back(engine_->parameters[index].name);
    refuse("finish: these parameters were never ready in this step: " + base::join(names, ", ") +
           ". Every rank must call mark_ready() for each. If steps leave "
           "parameters unused, set UnusedParameters::find.");
  }
  engine_->finish_step();
}

void DataParallelEngine::finish_step() {
  const bool synchronized = synchronizes();
  try {
    reducer.finish();
  } catch (...) {
    failure = std::current_exception();
    throw;
  }
  ++finished_steps;
  is_synchronized = synchronized;
  local_steps = synchronized ? 0 : local_steps + 1;
  plan();
  if (synchronized && step_ended) step_ended();
}

void DataParallelEngine::shadow_step(std::int64_t steps) {
  if (local_steps == 0) zero_gradients();
  plan_step(true, steps);
  is_shadow = true;
  finish_step();
  is_shadow = false;
}

void DistributedDataParallel::abandon_step(CallSite site) {
  const CalledFrom here(site);
  if (!engine_->step_began()) return;
  if (synchronizes()) group().barrier({.name = "an abandoned step"}).wait();
  engine_->reducer.abandon();
  engine_->is_synchronized = false;
  engine_->plan();
}

bool DistributedDataParallel::synchronizes() const {
  return engine_->synchronizes();
}

NoSync DistributedDataParallel::no_sync() {
  if (engine_->step_began()) {
    refuse("no_sync: gradients of this step were marked ready and may be in flight. Call no_sync() before backward.");
  }
  return NoSync(*this);
}

Accumulation DistributedDataParallel::accumulate(std::int64_t micro_steps) {
  return Accumulation(*this, micro_steps);
}

void DistributedDataParallel::require_synchronized(std::string_view what) const {
  const DataParallelEngine& self = *engine_;
  const auto refuse_to = [what](const std::string& why) { refuse(std::string(what) + ": " + why); };
  if (self.failure) std::rethrow_exception(self.failure);
  if (self.step_began()) refuse_to("gradients were marked ready, but finish() was not called");
  if (self.is_local && self.local_steps > 0) return;
  if (self.local_steps > 0) {
    refuse_to(
        "the gradients are local to this rank, because no_sync() or accumulate() skipped the synchronisation of " +
        base::counted(self.local_steps, "step") + ". Step only after a synchronised finish().");
  }
  if (!self.is_synchronized) refuse_to("finish() was not called since the gradients were zeroed");
}

void DistributedDataParallel::broadcast_buffers(int root, CallSite site) {
  const CalledFrom here(site);
  broadcast_all(group(), engine_->model_buffers, root, engine_->stream);
}

// Returns the gradients that this rank's optimizer uses, in as few pieces as possible.
std::vector<Buffer> DataParallelEngine::owned_gradients() const {
  std::vector<Buffer> result;
  if (shards) {
    for (const ParameterPiece& piece : shards->owned()) result.push_back(piece.gradient);
    return result;
  }
  for (const DataType type : kDataTypes) {
    if (reducer.arena(type).count > 0) result.push_back(reducer.arena(type));
  }
  return result;
}

double DataParallelEngine::sum_over_ranks(double value, const char* name) const {
  std::array<double, 1> sum = {value};
  group.all_reduce(sum, ReduceOp::sum, {.name = name}).wait();
  return sum[0];
}

double DistributedDataParallel::clip_gradients(double max_norm, CallSite site) {
  const CalledFrom here(site);
  if (!(max_norm > 0)) {
    refuse("clip_gradients: the norm to clip to must be positive, not " + std::to_string(max_norm));
  }
  require_synchronized("clip_gradients");
  const double squares = engine_->math("clip_gradients").sum_of_squares(engine_->owned_gradients());
  const double norm =
      std::sqrt(engine_->is_sharded() ? engine_->sum_over_ranks(squares, "the norm of the gradients") : squares);
  const double factor = max_norm / (norm + 1e-6);
  if (std::isfinite(norm) && factor < 1) scale_gradients(factor);
  return norm;
}

void DistributedDataParallel::scale_gradients(double factor) {
  const ElementMath math = engine_->math("scale_gradients");
  for (const Buffer& gradient : engine_->owned_gradients()) math.scale(gradient, factor);
}

bool DistributedDataParallel::gradients_are_finite(CallSite site) {
  const CalledFrom here(site);
  require_synchronized("gradients_are_finite");
  const bool finite = engine_->math("gradients_are_finite").are_finite(engine_->owned_gradients());
  const bool ranks_differ = engine_->is_sharded() || engine_->is_local;
  return (ranks_differ ? engine_->sum_over_ranks(finite ? 0 : 1, "whether gradients are finite") : finite ? 0 : 1) == 0;
}

std::vector<ParameterPiece> DistributedDataParallel::owned() const {
  if (engine_->shards) return engine_->shards->owned();
  std::vector<ParameterPiece> result;
  for (std::size_t i = 0; i < engine_->parameters.size(); ++i) {
    result.push_back({i, 0, engine_->parameters[i].data, engine_->reducer.gradient(i).data});
  }
  return result;
}

void DistributedDataParallel::share_parameters(CallSite site) {
  const CalledFrom here(site);
  if (engine_->shards) engine_->shards->share(engine_->math("share_parameters"), engine_->gpu_stream());
}

std::span<const std::size_t> DistributedDataParallel::unused_parameters() const {
  return engine_->reducer.unused();
}

std::size_t DistributedDataParallel::bucket_count() const {
  return engine_->reducer.buckets().size();
}

std::vector<std::vector<std::size_t>> DistributedDataParallel::buckets() const {
  std::vector<std::vector<std::size_t>> result;
  for (const Bucket& bucket : engine_->reducer.buckets()) result.push_back(bucket.parameters);
  return result;
}

const StepStatistics& DistributedDataParallel::statistics() const {
  return engine_->reducer.statistics();
}

void DistributedDataParallel::reset_statistics() {
  engine_->reducer.reset_statistics();
}

std::uint64_t DistributedDataParallel::verify_parameters(CallSite site) {
  const CalledFrom here(site);
  std::vector<Tensor> all = engine_->parameters;
  all.insert(all.end(), engine_->frozen.begin(), engine_->frozen.end());
  return verify_equal(engine_->group, all, engine_->stream);
}

}  // namespace ddp
