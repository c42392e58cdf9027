#include <ddp/distributed_data_parallel.h>
#include <ddp/error.h>
#include <ddp/gradient_accumulation.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>
#include <string>

#include "base/text.h"
#include "runtime/ddp/gradient_norm.h"
#include "runtime/ddp/hooks/shard_hook.h"
#include "runtime/ddp/model_check.h"
#include "runtime/ddp/model_exchange.h"
#include "runtime/ddp/parameter_shards.h"
#include "runtime/ddp/reducer.h"
#include "runtime/group/agreement.h"
#include "runtime/group/called_from.h"
#include "runtime/reduction/reduction.h"

namespace ddp {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::invalid_argument, what);
}

bool is_on_gpu(std::span<const Tensor> parameters) {
  return parameters.front().data.device == DeviceType::cuda;
}

ReducerOptions reducer_options(std::span<const Tensor> parameters, const DataParallelOptions& options) {
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

}  // namespace

class DistributedDataParallel::Implementation {
 public:
  Implementation(ProcessGroup& group_, std::vector<Tensor> parameters_, DataParallelOptions options)
      : group(group_),
        parameters(std::move(parameters_)),
        buffers(std::move(options.buffers)),
        frozen(std::move(options.frozen)),
        stream(options.stream),
        reducer(group, parameters, reducer_options(parameters, options)) {
    if (!options.shard_optimizer) return;
    shards.emplace(group, parameters, reducer.gradients(), reducer.buckets(), reducer.sizes(), reducer.layout());
  }

  void require_parameter(std::size_t index, const char* function) const {
    if (index < parameters.size()) return;
    refuse(std::string(function) + ": there is no parameter " + std::to_string(index));
  }

  // Only steps that have not begun follow it.
  void plan() {
    const bool synchronizes = window_synchronizes && no_sync_levels == 0 && !is_local;
    if (!reducer.began()) reducer.plan_step({synchronizes, 1.0 / (divisor * static_cast<double>(window_steps))});
  }

  void require_host(const char* function) const {
    if (!is_on_gpu(parameters)) return;
    throw Error(ErrorKind::unavailable, std::string(function) +
                                            ": works on gradients in host memory, and these are in GPU memory. Do it "
                                            "with kernels, or with your GPU library, on all gradient(i)");
  }

  std::vector<Buffer> owned_gradients() const;
  double sum_over_ranks(double value) const;

  ProcessGroup& group;
  const std::vector<Tensor> parameters;
  const std::vector<Tensor> buffers;
  const std::vector<Tensor> frozen;
  void* const stream;  // of what is in GPU memory
  Reducer reducer;
  std::optional<ParameterShards> shards;  // with shard_optimizer
  std::exception_ptr failure;             // of a finish(): the object is of no use after it

  int no_sync_levels = 0;
  bool is_local = false;
  bool has_window = false;
  double divisor = group.size();
  bool window_synchronizes = true;
  std::int64_t window_steps = 1;

  std::int64_t finished_steps = 0;
  // Since zero_gradients() or the last synchronised step.
  std::int64_t local_steps = 0;
  bool is_synchronized = false;
};

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
        "zero_gradients: gradients of this step were marked ready, and may be under way. End the step with finish(); "
        "one that cannot be ended (an exception in the middle of backward) ends the use of this object: leave, or "
        "make a new group and a new DistributedDataParallel on all ranks.");
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
           " was complete before in this step. Call finish() between steps. " +
           (implementation_->reducer.is_static()
                ? "With static_graph every step marks what the first one did, as often."
                : "If a step uses the parameter more than once, set static_graph."));
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
  finish_step();
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

// The gradients that this rank's optimizer uses, in as few pieces as possible.
std::vector<Buffer> DistributedDataParallel::Implementation::owned_gradients() const {
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

double DistributedDataParallel::Implementation::sum_over_ranks(double value) const {
  std::array<double, 1> sum = {value};
  group.all_reduce(sum).wait();
  return sum[0];
}

double DistributedDataParallel::clip_gradients(double max_norm, CallSite site) {
  const CalledFrom here(site);
  if (!(max_norm > 0)) {
    refuse("clip_gradients: the norm to clip to must be positive, not " + std::to_string(max_norm));
  }
  require_synchronized("clip_gradients");
  implementation_->require_host("clip_gradients");
  double squares = 0;
  for (const Buffer& gradient : implementation_->owned_gradients()) squares += sum_of_squares(gradient);
  const double norm = std::sqrt(is_sharded() ? implementation_->sum_over_ranks(squares) : squares);
  const double factor = max_norm / (norm + 1e-6);
  if (std::isfinite(norm) && factor < 1) scale_gradients(factor);
  return norm;
}

void DistributedDataParallel::scale_gradients(double factor) {
  implementation_->require_host("scale_gradients");
  for (const Buffer& gradient : implementation_->owned_gradients()) scale(gradient, factor);
}

bool DistributedDataParallel::gradients_are_finite(CallSite site) {
  const CalledFrom here(site);
  require_synchronized("gradients_are_finite");
  implementation_->require_host("gradients_are_finite");
  const std::vector<Buffer> gradients = implementation_->owned_gradients();
  const bool finite = std::all_of(gradients.begin(), gradients.end(), [](const Buffer& g) { return is_finite(g); });
  const bool ranks_differ = is_sharded() || is_local();
  return (ranks_differ ? implementation_->sum_over_ranks(finite ? 0 : 1) : finite ? 0 : 1) == 0;
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

std::vector<ParameterPiece> DistributedDataParallel::owned() const {
  if (implementation_->shards) return implementation_->shards->owned();
  std::vector<ParameterPiece> result;
  for (std::size_t i = 0; i < implementation_->parameters.size(); ++i) {
    result.push_back({i, 0, implementation_->parameters[i].data, implementation_->reducer.gradient(i).data});
  }
  return result;
}

void DistributedDataParallel::share_parameters(CallSite site) {
  const CalledFrom here(site);
  if (implementation_->shards) implementation_->shards->share();
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
