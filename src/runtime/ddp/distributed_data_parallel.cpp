#include <ddp/distributed_data_parallel.h>
#include <ddp/error.h>

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "base/text.h"
#include "runtime/ddp/reducer.h"
#include "runtime/group/agreement.h"

namespace ddp {
namespace {

// What is wrong with this rank's arguments; empty if nothing.
std::string find_fault(std::span<const Tensor> parameters) {
  if (parameters.empty()) return "DistributedDataParallel: no parameters";
  for (const Tensor& tensor : parameters) {
    const auto elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
    const std::string who = "parameter " + describe(tensor);
    if (tensor.data.type != DataType::f32 && tensor.data.type != DataType::f64) {
      return who + " is not of a floating-point type";
    }
    if (elements != static_cast<std::int64_t>(tensor.data.count)) {
      return who + " has " + base::counted(static_cast<std::int64_t>(tensor.data.count), "element") +
             "; its shape says " + std::to_string(elements);
    }
    if (tensor.data.device != DeviceType::cpu) return who + " is in GPU memory; buckets are in host memory so far";
  }
  return "";
}

// Collective. A rank with a fault of its own still takes part, so that the others do not wait for it.
void check_parameters(ProcessGroup& group, std::span<const Tensor> parameters) {
  const std::string fault = find_fault(parameters);
  const auto disagreement = first_disagreement(group, fault.empty() ? describe_all(parameters) : "a fault: " + fault);
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, fault);
  if (!disagreement) return;
  throw Error(ErrorKind::mismatch, "the ranks' models differ: " + *disagreement +
                                       ". All ranks must register the same parameters in the same order.");
}

std::vector<ParameterSize> sizes(std::span<const Tensor> parameters) {
  std::vector<ParameterSize> result;
  for (const Tensor& tensor : parameters) result.push_back({tensor.data.type, tensor.data.count});
  return result;
}

}  // namespace

class DistributedDataParallel::Implementation {
 public:
  Implementation(ProcessGroup& group_, std::vector<Tensor> parameters_, const DataParallelOptions& options)
      : group(group_),
        parameters(std::move(parameters_)),
        reducer(group, sizes(parameters), {options.first_bucket_bytes, options.bucket_bytes}) {}

  ProcessGroup& group;
  const std::vector<Tensor> parameters;
  Reducer reducer;
};

DistributedDataParallel::DistributedDataParallel(ProcessGroup& group, std::vector<Tensor> parameters,
                                                 DataParallelOptions options) {
  check_parameters(group, parameters);
  implementation_ = std::make_unique<Implementation>(group, std::move(parameters), options);
  for (const Tensor& tensor : implementation_->parameters) group.broadcast(tensor.data, 0).wait();
}

DistributedDataParallel::~DistributedDataParallel() = default;

std::span<const Tensor> DistributedDataParallel::parameters() const {
  return implementation_->parameters;
}

Buffer DistributedDataParallel::gradient(std::size_t index) const {
  return implementation_->reducer.gradient(index);
}

void DistributedDataParallel::zero_gradients() {
  implementation_->reducer.zero();
}

void DistributedDataParallel::ready(std::size_t index) {
  if (index >= implementation_->parameters.size()) {
    throw Error(ErrorKind::invalid_argument, "ready: there is no parameter " + std::to_string(index));
  }
  if (!implementation_->reducer.ready(index)) {
    throw Error(ErrorKind::invalid_argument, "ready: the gradient of " + describe(implementation_->parameters[index]) +
                                                 " was ready before in this step. Call finish() between steps.");
  }
}

void DistributedDataParallel::finish() {
  const std::vector<std::size_t> missing = implementation_->reducer.missing();
  if (!missing.empty()) {
    std::vector<std::string> names;
    for (const std::size_t index : missing) names.push_back(implementation_->parameters[index].name);
    throw Error(ErrorKind::invalid_argument, "finish: these parameters were never ready in this step: " +
                                                 base::join(names, ", ") + ". Every rank must call ready() for each.");
  }
  implementation_->reducer.finish();
}

std::size_t DistributedDataParallel::bucket_count() const {
  return implementation_->reducer.bucket_count();
}

std::uint64_t DistributedDataParallel::verify_parameters() {
  base::Fnv1a64 hash;
  for (const Tensor& tensor : implementation_->parameters) {
    hash.update({static_cast<const std::byte*>(tensor.data.data), tensor.data.bytes()});
  }
  ProcessGroup& group = implementation_->group;
  std::vector<std::int64_t> mine = {static_cast<std::int64_t>(hash.value())};
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(all, mine).wait();
  std::vector<int> different;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)] != all[0]) different.push_back(rank);
  }
  if (!different.empty()) {
    throw Error(ErrorKind::mismatch, "the parameters of rank " + base::rank_list(different) +
                                         " differ from those of rank 0. Does every rank step the same optimizer on the "
                                         "averaged gradients?");
  }
  return hash.value();
}

}  // namespace ddp
