#include <ddp/distributed_data_parallel.h>
#include <ddp/gradient_accumulation.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/text.h"
#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_engine.h"
#include "runtime/ddp/model_exchange.h"

namespace ddp {

using namespace internal;

DistributedDataParallel::DistributedDataParallel(const ProcessGroup& group, std::vector<Tensor> parameters,
                                                 DataParallelOptions options, CallSite site) {
  const CalledFrom here(site);
  check_model(group, parameters, options);
  if (!options.stream) options.stream = nullptr;
  engine_ = std::make_shared<DataParallelEngine>(group, std::move(parameters), std::move(options));
  engine_->broadcast_first_values();
  broadcast_all(group, engine_->frozen(), 0, engine_->stream());
  broadcast_buffers();
}

DistributedDataParallel::~DistributedDataParallel() = default;

const ProcessGroup& DistributedDataParallel::group() const {
  return engine_->group();
}

std::span<const Tensor> DistributedDataParallel::parameters() const {
  return engine_->parameters();
}

const Tensor& Parameter::values() const {
  return data_parallel_.parameters()[index_];
}
Buffer Parameter::gradient() const {
  return data_parallel_.gradient(index_);
}
void Parameter::mark_ready(CallSite site) const {
  data_parallel_.mark_ready(index_, site);
}
void Parameter::wait() const {
  data_parallel_.wait(index_);
}

Parameter DistributedDataParallel::parameter(std::size_t index) const {
  engine_->require_parameter(index, "parameter");
  return {*this, index};
}

Parameter DistributedDataParallel::parameter(std::string_view name) const {
  const auto found = std::ranges::find(parameters(), name, &Tensor::name);
  if (found == parameters().end()) {
    std::vector<std::string> names;
    for (const Tensor& parameter : parameters()) names.push_back("'" + parameter.name + "'");
    refuse("parameter: there is no parameter '" + std::string(name) + "'; the parameters are " +
           base::join(names, ", "));
  }
  return {*this, static_cast<std::size_t>(found - parameters().begin())};
}

Buffer DistributedDataParallel::gradient(std::size_t index) const {
  engine_->require_parameter(index, "gradient");
  return engine_->reducer().gradient(index).data;
}

void DistributedDataParallel::zero_gradients() const {
  engine_->zero_gradients();
}

void DistributedDataParallel::mark_ready(std::size_t index, CallSite site) const {
  const CalledFrom here(site);
  engine_->mark_ready(index);
}

void DistributedDataParallel::wait(std::size_t index) const {
  engine_->wait(index);
}

void DistributedDataParallel::finish(CallSite site) const {
  const CalledFrom here(site);
  engine_->finish();
}

void DistributedDataParallel::abandon_step(CallSite site) const {
  const CalledFrom here(site);
  engine_->abandon_step();
}

bool DistributedDataParallel::synchronizes() const {
  return engine_->synchronizes();
}

NoSync DistributedDataParallel::no_sync() const {
  if (engine_->step_began()) {
    refuse("no_sync: gradients of this step were marked ready and may be in flight. Call no_sync() before backward.");
  }
  return NoSync(*this);
}

Accumulation DistributedDataParallel::accumulate(std::int64_t micro_steps) const {
  return Accumulation(*this, micro_steps);
}

void DistributedDataParallel::require_synchronized(std::string_view what) const {
  engine_->require_synchronized(what);
}

void DistributedDataParallel::broadcast_buffers(int root, CallSite site) const {
  const CalledFrom here(site);
  broadcast_all(group(), engine_->model_buffers(), root, engine_->stream());
}

double DistributedDataParallel::clip_gradients(double max_norm, CallSite site) const {
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

void DistributedDataParallel::scale_gradients(double factor) const {
  const ElementMath math = engine_->math("scale_gradients");
  for (const Buffer& gradient : engine_->owned_gradients()) math.scale(gradient, factor);
}

bool DistributedDataParallel::gradients_are_finite(CallSite site) const {
  const CalledFrom here(site);
  require_synchronized("gradients_are_finite");
  const bool finite = engine_->math("gradients_are_finite").are_finite(engine_->owned_gradients());
  const bool ranks_differ = engine_->is_sharded() || engine_->mode().is_local;
  return (ranks_differ ? engine_->sum_over_ranks(finite ? 0 : 1, "whether gradients are finite") : finite ? 0 : 1) == 0;
}

std::vector<ParameterPiece> DistributedDataParallel::owned() const {
  return engine_->owned();
}

void DistributedDataParallel::share_parameters(CallSite site) const {
  const CalledFrom here(site);
  engine_->share_parameters();
}

std::span<const std::size_t> DistributedDataParallel::unused_parameters() const {
  return engine_->reducer().unused();
}

std::size_t DistributedDataParallel::bucket_count() const {
  return engine_->reducer().buckets().size();
}

std::vector<std::vector<std::size_t>> DistributedDataParallel::buckets() const {
  std::vector<std::vector<std::size_t>> result;
  for (const Bucket& bucket : engine_->reducer().buckets()) result.push_back(bucket.parameters);
  return result;
}

const StepStatistics& DistributedDataParallel::statistics() const {
  return engine_->reducer().statistics();
}

void DistributedDataParallel::reset_statistics() const {
  engine_->reset_statistics();
}

std::uint64_t DistributedDataParallel::verify_parameters(CallSite site) const {
  const CalledFrom here(site);
  std::vector<Tensor> all(parameters().begin(), parameters().end());
  all.insert(all.end(), engine_->frozen().begin(), engine_->frozen().end());
  return verify_equal(group(), all, engine_->stream());
}

}  // namespace ddp
