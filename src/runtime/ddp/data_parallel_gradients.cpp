// What is done to all gradients, and to what this rank owns.
#include <ddp/distributed_data_parallel.h>
#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_state.h"
#include "runtime/ddp/gradient_norm.h"
#include "runtime/reduction/reduction.h"

namespace ddp {

using namespace internal;

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

double DistributedDataParallel::Implementation::sum_over_ranks(double value, const char* name) const {
  std::array<double, 1> sum = {value};
  group.all_reduce(sum, ReduceOp::sum, {.timeout = {}, .name = name, .stream = {}}).wait();
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
  const double norm =
      std::sqrt(is_sharded() ? implementation_->sum_over_ranks(squares, "the norm of the gradients") : squares);
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
  return (ranks_differ ? implementation_->sum_over_ranks(finite ? 0 : 1, "whether gradients are finite")
          : finite     ? 0
                       : 1) == 0;
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

}  // namespace ddp
