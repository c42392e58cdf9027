#include <ddp/distributed_data_parallel.h>
#include <ddp/error.h>
#include <ddp/gradient_accumulation.h>

#include <string>

#include "base/text.h"
#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_state.h"
#include "runtime/ddp/hooks/shard_hook.h"
#include "runtime/ddp/model_check.h"
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
  result.limits = {options.first_bucket_bytes, options.bucket_bytes};
  result.rebuild = (options.rebuild_buckets || options.priority_chunk_bytes > 0) && !options.shard_optimizer;
  result.find_unused = options.find_unused;
  result.static_graph = options.static_graph;
  result.priority_chunk_bytes = options.priority_chunk_bytes;
  result.hook = options.shard_optimizer ? make_shard_hook() : options.hook ? options.hook : make_mean_hook();
  return result;
}

DistributedDataParallel::DistributedDataParallel(ProcessGroup& group, std::vector<Tensor> parameters,
                                                 DataParallelOptions options, CallSite site) {
  const CalledFrom here(site);
  check_model(group, parameters, options);
  implementation_ = std::make_unique<Implementation>(group, std::move(parameters), std::move(options));
  Implementation& self = *implementation_;
  is_on_gpu(self.parameters) ? broadcast_parameters(0) : self.reducer.broadcast_values(self.parameters);
  broadcast_all(group, self.frozen, 0, self.stream);
  broadcast_buffers();
}

DistributedDataParallel::~DistributedDataParallel() = default;

ProcessGroup& DistributedDataParallel::group() const {
  return implementation_->group;
}

std::span<const Tensor> DistributedDataParallel::parameters() const {
  return implementation_->parameters;
}

Buffer DistributedDataParallel::gradient(std::size_t index) const {
  implementation_->require_parameter(index, "gradient");
  return implementation_->reducer.gradient(index).data;
}

void DistributedDataParallel::zero_gradients() {
  if (implementation_->reducer.began()) {
    refuse(
        "zero_gradients: gradients of this step were marked ready, and may be under way. End the step with finish(), "
        "or, "
        "after an exception in the middle of backward, on all ranks with abandon_step().");
  }
  implementation_->reducer.zero();
  implementation_->is_synchronized = false;
  implementation_->local_steps = 0;
}

void DistributedDataParallel::mark_ready(std::size_t index, CallSite site) {
  const CalledFrom here(site);
  implementation_->require_parameter(index, "mark_ready");
  if (implementation_->failure) std::rethrow_exception(implementation_->failure);
  if (!implementation_->reducer.mark_ready(index)) {
    refuse("mark_ready: the gradient of " + describe(implementation_->parameters[index]) +
           (implementation_->reducer.is_static()
                ? " is complete, or is not used: with static_graph every step uses what the first one did, as often."
                : " was complete before in this step. If a step uses the parameter more than once, set static_graph.") +
           " End each step with finish(), one that failed with abandon_step().");
  }
}

void DistributedDataParallel::wait(std::size_t index) {
  implementation_->require_parameter(index, "wait");
  const auto refuse_wait = [&](const char* why) {
    refuse("wait: the gradient of " + describe(implementation_->parameters[index]) + " " + why);
  };
  if (implementation_->failure) std::rethrow_exception(implementation_->failure);
  if (!synchronizes()) refuse_wait("is not averaged in this step (no_sync, accumulate)");
  bool is_under_way = false;
  try {
    is_under_way = implementation_->reducer.wait(index);
  } catch (...) {
    implementation_->failure = std::current_exception();
    throw;
  }
  if (!is_under_way) refuse_wait("is not under way: mark all parameters ready before");
}

void DistributedDataParallel::finish(CallSite site) {
  const CalledFrom here(site);
  const std::vector<std::size_t> missing = implementation_->reducer.missing();
  if (!missing.empty()) {
    std::vector<std::string> names;
    for (const std::size_t index : missing) names.push_back(implementation_->parameters[index].name);
    refuse("finish: these parameters were never ready in this step: " + base::join(names, ", ") +
           ". Every rank must call mark_ready() for each. If steps leave "
           "parameters unused, set find_unused.");
  }
  finish_step();
}

void DistributedDataParallel::finish_step() {
  Implementation& self = *implementation_;
  const bool synchronizes = self.reducer.step_plan().synchronizes;
  try {
    self.reducer.finish();
  } catch (...) {
    self.failure = std::current_exception();
    throw;
  }
  ++self.finished_steps;
  self.is_synchronized = synchronizes;
  self.local_steps = synchronizes ? 0 : self.local_steps + 1;
  self.plan();
  if (synchronizes && self.step_ended) self.step_ended();
}

void DistributedDataParallel::abandon_step(CallSite site) {
  const CalledFrom here(site);
  if (!step_began()) return;
  if (synchronizes()) group().barrier({.timeout = {}, .name = "a step that is given up", .stream = {}}).wait();
  implementation_->reducer.abandon();
  implementation_->is_synchronized = false;
  implementation_->plan();
}

DistributedDataParallel::JoinState& DistributedDataParallel::join_state() const {
  return implementation_->join;
}

void DistributedDataParallel::on_step_end(std::function<void()> ended) {
  implementation_->step_ended = std::move(ended);
}

void DistributedDataParallel::tell_gradients(std::function<bool(std::size_t parameter)> has_gradient) {
  Implementation& self = *implementation_;
  // A rank without data has what was left of its last step.
  self.reducer.has_gradient = [&self, has_gradient = std::move(has_gradient)](std::size_t parameter) {
    return !self.is_shadow && has_gradient(parameter);
  };
}

std::span<const std::size_t> DistributedDataParallel::dropped_parameters() const {
  return implementation_->reducer.dropped();
}

std::shared_ptr<void> DistributedDataParallel::gradient_memory() const {
  return implementation_->reducer.memory();
}

bool DistributedDataParallel::is_within_no_sync() const {
  return implementation_->no_sync_levels > 0;
}

void DistributedDataParallel::plan_step(bool synchronizes, std::int64_t window_steps) {
  implementation_->window_synchronizes = synchronizes;
  implementation_->window_steps = window_steps;
  implementation_->plan();
}

void DistributedDataParallel::enter_no_sync(int levels) {
  implementation_->no_sync_levels += levels;
  implementation_->plan();
}

void DistributedDataParallel::take_window() {
  if (implementation_->has_window) {
    throw Error(
        ErrorKind::invalid_argument,
        "accumulate: there is a window already. Keep the one that accumulate() returned for the whole training, "
        "or let it end before the next one.");
  }
  implementation_->has_window = true;
}

void DistributedDataParallel::leave_window() {
  implementation_->has_window = false;
  plan_step(true, 1);
}

bool DistributedDataParallel::is_local() const {
  return implementation_->is_local;
}

void DistributedDataParallel::set_local(bool is_local) {
  implementation_->is_local = is_local;
  implementation_->plan();
}

void DistributedDataParallel::set_divisor(double ranks) {
  implementation_->divisor = ranks;
  implementation_->plan();
}

bool DistributedDataParallel::synchronizes() const {
  return implementation_->reducer.step_plan().synchronizes;
}

std::int64_t DistributedDataParallel::window_steps() const {
  return implementation_->window_steps;
}

std::int64_t DistributedDataParallel::finished_steps() const {
  return implementation_->finished_steps;
}

std::int64_t DistributedDataParallel::local_steps() const {
  return implementation_->local_steps;
}

void DistributedDataParallel::shadow_step(std::int64_t window_steps) {
  if (local_steps() == 0) zero_gradients();
  plan_step(true, window_steps);
  implementation_->is_shadow = true;
  finish_step();
  implementation_->is_shadow = false;
}

bool DistributedDataParallel::is_sharded() const {
  return implementation_->shards.has_value();
}

bool DistributedDataParallel::step_began() const {
  return implementation_->reducer.began();
}

NoSync DistributedDataParallel::no_sync() {
  if (step_began()) {
    refuse("no_sync: gradients of this step were marked ready, and may be under way. Take it before backward.");
  }
  return NoSync(*this);
}

Accumulation DistributedDataParallel::accumulate(std::int64_t micro_steps) {
  return Accumulation(*this, micro_steps);
}

void DistributedDataParallel::require_synchronized(std::string_view what) const {
  const Implementation& self = *implementation_;
  const auto refuse_to = [what](const std::string& why) { refuse(std::string(what) + ": " + why); };
  if (self.failure) std::rethrow_exception(self.failure);
  if (self.reducer.began()) refuse_to("gradients were marked ready, but finish() was not called");
  if (self.is_local && self.local_steps > 0) return;
  if (self.local_steps > 0) {
    refuse_to("the gradients are this rank's own, of " + base::counted(self.local_steps, "step") +
              " that no_sync() or accumulate() kept from being synchronised. Step only after a synchronised finish().");
  }
  if (!self.is_synchronized) refuse_to("there was no finish() since the gradients were zeroed");
}

void DistributedDataParallel::broadcast_parameters(int root) {
  broadcast_all(group(), implementation_->parameters, root, implementation_->stream);
}

void DistributedDataParallel::broadcast_buffers(int root, CallSite site) {
  const CalledFrom here(site);
  broadcast_all(group(), implementation_->buffers, root, implementation_->stream);
}

void DistributedDataParallel::average_parameters() {
  average_all(group(), implementation_->parameters, implementation_->stream);
}

std::span<const std::size_t> DistributedDataParallel::unused_parameters() const {
  return implementation_->reducer.unused();
}

std::size_t DistributedDataParallel::bucket_count() const {
  return implementation_->reducer.buckets().size();
}

std::vector<std::vector<std::size_t>> DistributedDataParallel::buckets() const {
  std::vector<std::vector<std::size_t>> result;
  for (const Bucket& bucket : implementation_->reducer.buckets()) result.push_back(bucket.parameters);
  return result;
}

const StepStatistics& DistributedDataParallel::statistics() const {
  return implementation_->reducer.statistics();
}

void DistributedDataParallel::reset_statistics() {
  implementation_->reducer.reset_statistics();
}

std::uint64_t DistributedDataParallel::verify_parameters(CallSite site) {
  const CalledFrom here(site);
  std::vector<Tensor> all = implementation_->parameters;
  all.insert(all.end(), implementation_->frozen.begin(), implementation_->frozen.end());
  return verify_equal(implementation_->group, all, implementation_->stream);
}

}  // namespace ddp
