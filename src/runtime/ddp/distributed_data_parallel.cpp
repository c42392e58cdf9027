#include <ddp/distributed_data_parallel.h>
#include <ddp/error.h>

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "base/text.h"
#include "runtime/ddp/reducer.h"

namespace ddp {
namespace {

std::string describe(const Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.shape) sizes.push_back(std::to_string(size));
  return "'" + tensor.name + "' " + std::string(to_string(tensor.data.type)) + "[" + base::join(sizes, "x") + "]";
}

// One line a parameter: what must be equal on all ranks.
std::string signature(std::span<const Tensor> parameters) {
  std::string text;
  for (const Tensor& tensor : parameters) text += describe(tensor) + "\n";
  return text;
}

// "parameter 3: rank 0 has 'head' f32[10x64], rank 2 has 'head' f32[12x64]"
std::string first_difference(const std::string& ours, const std::string& theirs, std::size_t rank) {
  const std::vector<std::string> left = base::split(ours, '\n');
  const std::vector<std::string> right = base::split(theirs, '\n');
  const std::string who = "rank " + std::to_string(rank);
  if (left.size() != right.size()) {
    return "rank 0 has " + base::counted(std::ssize(left) - 1, "parameter") + ", " + who + " has " +
           std::to_string(right.size() - 1);
  }
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] != right[i]) {
      return "parameter " + std::to_string(i) + ": rank 0 has " + left[i] + ", " + who + " has " + right[i];
    }
  }
  return "";
}

// Exchanges hashes first: eight bytes a rank, and only ranks that differ pay for the texts.
void verify_signatures(ProcessGroup& group, std::span<const Tensor> parameters) {
  const std::string own = signature(parameters);
  base::Fnv1a64 hash;
  hash.update(own);
  std::vector<std::int64_t> mine = {static_cast<std::int64_t>(hash.value())};
  std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(all, mine).wait();
  if (std::all_of(all.begin(), all.end(), [&](std::int64_t other) { return other == all[0]; })) return;

  const std::vector<std::string> texts = group.all_gather_bytes(own);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    throw Error(ErrorKind::mismatch, "the ranks' models differ: " + first_difference(texts[0], texts[rank], rank) +
                                         ". All ranks must register the same parameters in the same order.");
  }
}

void check_arguments(std::span<const Tensor> parameters) {
  if (parameters.empty()) throw Error(ErrorKind::invalid_argument, "DistributedDataParallel: no parameters");
  for (const Tensor& tensor : parameters) {
    const auto elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
    if (tensor.data.type != DataType::f32 && tensor.data.type != DataType::f64) {
      throw Error(ErrorKind::invalid_argument, "parameter " + describe(tensor) + " is not of a floating-point type");
    }
    if (elements != static_cast<std::int64_t>(tensor.data.count)) {
      throw Error(ErrorKind::invalid_argument,
                  "parameter " + describe(tensor) + " has " +
                      base::counted(static_cast<std::int64_t>(tensor.data.count), "element") + "; its shape says " +
                      std::to_string(elements));
    }
    if (tensor.data.device != DeviceType::cpu) {
      throw Error(ErrorKind::invalid_argument,
                  "parameter " + describe(tensor) + " is in GPU memory; buckets are in host memory so far");
    }
  }
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
  check_arguments(parameters);
  verify_signatures(group, parameters);
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
