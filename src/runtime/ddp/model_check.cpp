#include "runtime/ddp/model_check.h"

#include <ddp/error.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/hash.h"
#include "base/text.h"
#include "runtime/group/agreement.h"

namespace ddp::internal {
namespace {

// What is wrong with this rank's arguments; empty if nothing.
std::string find_parameter_fault(std::span<const Tensor> parameters, std::span<const Tensor> buffers) {
  if (parameters.empty()) return "DistributedDataParallel: no parameters";
  for (const Tensor& tensor : parameters) {
    if (!is_floating_point(tensor.data.type)) {
      return "parameter " + describe(tensor) + " is not of a floating-point type";
    }
  }
  std::set<std::string_view> names;
  for (const Tensor& tensor : parameters) {
    if (tensor.name.empty()) return "parameter " + describe(tensor) + " has no name";
    if (!names.insert(tensor.name).second) return "two parameters are named '" + tensor.name + "'";
  }
  const std::string fault = find_shape_fault(parameters);
  return fault.empty() ? find_shape_fault(buffers) : fault;
}

// Parameters are all in host memory or all in GPU memory; the buffers may be anywhere.
std::string find_device_fault(const ProcessGroup& group, std::span<const Tensor> parameters,
                              const DataParallelOptions& options) {
  const auto is_on_gpu = [](const Tensor& tensor) { return tensor.data.device == DeviceType::cuda; };
  const auto on_gpu = std::find_if(parameters.begin(), parameters.end(), is_on_gpu);
  const auto on_host = std::find_if_not(parameters.begin(), parameters.end(), is_on_gpu);
  const auto buffer = std::find_if(options.buffers.begin(), options.buffers.end(), is_on_gpu);
  if (on_gpu != parameters.end() && on_host != parameters.end()) {
    return "parameter " + describe(*on_gpu) + " is in GPU memory and " + describe(*on_host) +
           " in host memory. Put all of them on the GPU";
  }
  if (group.backend() != "nccl" && (on_gpu != parameters.end() || buffer != options.buffers.end())) {
    return describe(on_gpu != parameters.end() ? *on_gpu : *buffer) + " is in GPU memory, which backend " +
           group.backend() + " cannot reach. Use nccl (--backend=nccl says why it cannot be used)";
  }
  if (on_gpu != parameters.end() && (options.shard_optimizer || options.priority_chunk_bytes > 0)) {
    return "shard_optimizer and priority_chunk_bytes go with parameters in host memory only";
  }
  return "";
}

// One line each; whatever ranks must agree on beside their tensors.
std::string describe_options(const DataParallelOptions& options) {
  const auto switched = [](bool on) { return on ? "on" : "off"; };
  return "buckets of " + std::to_string(options.first_bucket_bytes) + " and " + std::to_string(options.bucket_bytes) +
         " bytes\nrebuild_buckets " + switched(options.rebuild_buckets) + "\nfind_unused " +
         switched(options.find_unused) + "\nstatic_graph " + switched(options.static_graph) + "\n" +
         (options.hook ? "a hook" : "no hook") + "\nshard_optimizer " + switched(options.shard_optimizer) +
         "\npriority_chunk_bytes " + std::to_string(options.priority_chunk_bytes) + "\n";
}

}  // namespace

void check_model(ProcessGroup& group, std::span<const Tensor> parameters, const DataParallelOptions& options) {
  std::string fault = find_parameter_fault(parameters, options.buffers);
  if (fault.empty()) fault = find_shape_fault(options.frozen);
  if (fault.empty()) fault = find_device_fault(group, parameters, options);
  if (options.shard_optimizer && options.hook) fault = "shard_optimizer goes with no communication hook";
  if (options.priority_chunk_bytes > 0 && (options.shard_optimizer || options.hook || options.find_unused)) {
    fault = "priority_chunk_bytes goes with neither shard_optimizer, a communication hook nor find_unused";
  }
  const auto disagreement = first_disagreement(
      group,
      fault.empty() ? describe_all(parameters) + describe_all(options.buffers) + describe_all(options.frozen)
                    : "a fault: " + fault,
      "the model");
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, fault);
  if (disagreement) {
    throw Error(ErrorKind::mismatch,
                "the ranks' models differ: " + *disagreement +
                    ". All ranks must register the same parameters and buffers in the same order.");
  }
  const auto different_options = first_disagreement(group, describe_options(options), "DataParallelOptions");
  if (!different_options) return;
  throw Error(ErrorKind::mismatch, "the ranks' DataParallelOptions differ: " + *different_options);
}

std::uint64_t verify_equal(ProcessGroup& group, std::span<const Tensor> parameters, void* stream) {
  base::Fnv1a64 hash;
  std::vector<std::byte> copy;
  for (const Tensor& tensor : parameters) {
    const std::byte* bytes = static_cast<const std::byte*>(tensor.data.data);
    if (tensor.data.device == DeviceType::cuda) {
      copy.resize(tensor.data.bytes());
      group.copy({copy.data(), tensor.data.count, tensor.data.type}, tensor.data, stream);
      bytes = copy.data();
    }
    hash.update({bytes, tensor.data.bytes()});
  }
  const std::vector<std::int64_t> all = gather_hashes(group, hash.value(), "verify_parameters");
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

}  // namespace ddp::internal
