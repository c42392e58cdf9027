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
std::string find_parameter_fault(std::span<const Tensor> parameters) {
  if (parameters.empty()) return "DistributedDataParallel: no parameters";
  for (const Tensor& tensor : parameters) {
    if (tensor.data.type != DataType::f32 && tensor.data.type != DataType::f64) {
      return "parameter " + describe(tensor) + " is not of a floating-point type";
    }
  }
  return find_fault(parameters);
}

// Collective. A rank with a fault of its own still takes part, so that the others do not wait for it.
void check_parameters(ProcessGroup& group, std::span<const Tensor> parameters, const DataParallelOptions& options) {
  const std::string fault = find_parameter_fault(parameters);
  const auto disagreement = first_disagreement(group, fault.empty() ? describe_all(parameters) : "a fault: " + fault);
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, fault);
  if (disagreement) {
    throw Error(ErrorKind::mismatch, "the ranks' models differ: " + *disagreement +
                                         ". All ranks must register the same parameters in the same order.");
  }
  const auto different_options = first_disagreement(
      group, std::to_string(options.first_bucket_bytes) + " and " + std::to_string(options.bucket_bytes));
  if (!different_options) return;
  throw Error(ErrorKind::mismatch, "the ranks' bucket sizes (DataParallelOptions) differ: " + *different_options);
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

  void require_parameter(std::size_t index, const char* function) const {
    if (index < parameters.size()) return;
    throw Error(ErrorKind::invalid_argument,
                std::string(function) + ": there is no parameter " + std::to_string(index));
  }

  ProcessGroup& group;
  const std::vector<Tensor> parameters;
  Reducer reducer;
  std::exception_ptr failure;  // of a finish(): the object is of no use after it
};

DistributedDataParallel::DistributedDataParallel(ProcessGroup& group, std::vector<Tensor> parameters,
                                                 DataParallelOptions options) {
  check_parameters(group, parameters, options);
  implementation_ = std::make_unique<Implementation>(group, std::move(parameters), options);
  for (const Tensor& tensor : implementation_->parameters) group.broadcast(tensor.data, 0).wait();
}

DistributedDataParallel::~DistributedDataParallel() = default;

std::span<const Tensor> DistributedDataParallel::parameters() const {
  return implementation_->parameters;
}

Buffer DistributedDataParallel::gradient(std::size_t index) const {
  implementation_->require_parameter(index, "gradient");
  return implementation_->reducer.gradient(index);
}

void DistributedDataParallel::zero_gradients() {
  implementation_->reducer.zero();
}

void DistributedDataParallel::ready(std::size_t index) {
  implementation_->require_parameter(index, "ready");
  if (implementation_->failure) std::rethrow_exception(implementation_->failure);
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
  try {
    implementation_->reducer.finish();
  } catch (...) {
    implementation_->failure = std::current_exception();
    throw;
  }
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
  const std::vector<std::int64_t> all = gather_hashes(group, hash.value());
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
