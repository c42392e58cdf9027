#include "runtime/ddp/model_exchange.h"

#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "runtime/call/call.h"
#include "runtime/ddp/element_math.h"
#include "runtime/ddp/excluded_features.h"
#include "runtime/group/agreement.h"
#include "runtime/group/group_core.h"

namespace ddp::internal {
namespace {

// Returns the fault of this rank's arguments as text, or an empty string if there is none.
std::string find_parameter_fault(std::span<const Tensor> parameters, std::span<const Tensor> buffers) {
  if (parameters.empty()) return "DistributedDataParallel: the model has no parameters";
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

// Returns the fault of the devices as text, or an empty string if there is none. Parameters must all be in host memory
// or all in GPU memory. The buffers may be anywhere.
std::string find_device_fault(const ProcessGroup& group, std::span<const Tensor> parameters,
                              const DataParallelOptions& options) {
  const auto is_on_gpu = [](const Tensor& tensor) { return tensor.data.device == DeviceType::cuda; };
  const auto on_gpu = std::find_if(parameters.begin(), parameters.end(), is_on_gpu);
  const auto on_host = std::find_if_not(parameters.begin(), parameters.end(), is_on_gpu);
  const auto buffer = std::find_if(options.model_buffers.begin(), options.model_buffers.end(), is_on_gpu);
  if (on_gpu != parameters.end() && on_host != parameters.end()) {
    return "parameter " + describe(*on_gpu) + " is in GPU memory and " + describe(*on_host) +
           " in host memory. Put all of them on the GPU";
  }
  if (group.backend() != "nccl" && (on_gpu != parameters.end() || buffer != options.model_buffers.end())) {
    return describe(on_gpu != parameters.end() ? *on_gpu : *buffer) + " is in GPU memory, which backend " +
           group.backend() + " cannot reach. Use nccl (--backend=nccl reports why it cannot be used)";
  }
  return "";
}

// Checks the program's own memory for the gradients, if the program gave one.
std::string find_memory_fault(std::span<const Tensor> parameters, const Buffer& gradients) {
  if (gradients.count == 0 && gradients.data == nullptr) return "";
  std::size_t count = 0;
  for (const Tensor& parameter : parameters) {
    count += parameter.data.count;
    if (parameter.data.type != gradients.type || parameter.data.device != gradients.device) {
      return "DataParallelOptions::gradients is " + describe(gradients) + ", but parameter " + describe(parameter) +
             " has another type or is in other memory; all gradients that the program provides must have one type";
    }
  }
  if (gradients.count == count && gradients.data != nullptr) return "";
  return "DataParallelOptions::gradients is " + describe(gradients) + ", but the parameters have " +
         std::to_string(count) + " elements: it must hold exactly one gradient for each";
}

// Returns a line on whether this rank's driver can load the library's GPU kernels. With kernels, a rank uses other
// reductions than without.
std::string describe_kernels(const ProcessGroup& group, std::span<const Tensor> parameters) {
  if (parameters.front().data.device == DeviceType::cpu) return "";
  return group.core().backend().gpu_math() != nullptr ? "a GPU driver that loads the library's kernels\n"
                                                      : "a GPU driver that cannot load the library's kernels\n";
}

// Returns one line for each option on which the ranks must agree, besides their tensors.
std::string describe_options(const ProcessGroup& group, std::span<const Tensor> parameters,
                             const DataParallelOptions& options) {
  const BucketOptions& buckets = options.buckets;
  constexpr std::array kUnused = {"refuse", "find", "static_graph"};
  constexpr std::array kExchanges = {"AllReduce", "PriorityChunks", "ShardOptimizer", "a hook"};
  const auto* chunks = std::get_if<PriorityChunks>(&options.exchange);
  return "buckets of " + std::to_string(buckets.first_bytes) + " and " + std::to_string(buckets.bytes) + " bytes, " +
         (buckets.rebuild ? "rebuilt" : "not rebuilt") +
         "\nunused parameters: " + kUnused[static_cast<std::size_t>(options.unused)] +
         "\nexchange: " + kExchanges[options.exchange.index()] +
         (chunks == nullptr ? "" : " of " + std::to_string(chunks->bytes) + " bytes") + "\n" +
         (options.gradients.count > 0 ? "the program's" : "own") + " memory of gradients\n" +
         describe_kernels(group, parameters);
}

// Starts all collectives, then waits for all of them.
template <typename Collective>
void for_all(std::span<const Tensor> tensors, Stream stream, const Collective& start) {
  std::vector<Work> works;
  for (const Tensor& tensor : tensors) {
    CallOptions options;
    options.name = tensor.name;
    if (tensor.data.device == DeviceType::cuda) options.stream = stream;
    works.push_back(start(tensor.data, options));
  }
  for (Work& work : works) work.wait();
}

}  // namespace

void broadcast_all(const ProcessGroup& group, std::span<const Tensor> tensors, int root, Stream stream) {
  for_all(tensors, stream,
          [&](const Buffer& data, const CallOptions& options) { return group.broadcast(data, root, options); });
}

void average_all(const ProcessGroup& group, std::span<const Tensor> tensors, Stream stream) {
  for_all(tensors, stream, [&](const Buffer& data, const CallOptions& options) {
    return group.all_reduce(data, prepare_mean(group, data, 1.0 / group.size(), options.stream), options);
  });
}

void check_model(const ProcessGroup& group, std::span<const Tensor> parameters, const DataParallelOptions& options) {
  std::string fault = find_parameter_fault(parameters, options.model_buffers);
  if (fault.empty()) fault = find_shape_fault(options.frozen);
  if (fault.empty()) fault = find_device_fault(group, parameters, options);
  if (fault.empty()) fault = find_memory_fault(parameters, options.gradients);
  if (const auto* chunks = std::get_if<PriorityChunks>(&options.exchange)) {
    const auto is_present = [&](Feature) { return options.unused == UnusedParameters::find; };
    if (const char* message = find_exclusion(Feature::priority_chunks, is_present)) fault = message;
    if (chunks->bytes == 0) fault = "PriorityChunks must have more than 0 bytes";
  }
  const auto disagreement = first_disagreement(
      group,
      fault.empty() ? describe_all(parameters) + describe_all(options.model_buffers) + describe_all(options.frozen)
                    : "a fault: " + fault,
      "the model");
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, fault);
  if (disagreement) {
    throw Error(ErrorKind::mismatch,
                "the ranks' models differ: " + *disagreement +
                    ". All ranks must register the same parameters and buffers in the same order.");
  }
  const auto different_options =
      first_disagreement(group, describe_options(group, parameters, options), "DataParallelOptions");
  if (!different_options) return;
  throw Error(ErrorKind::mismatch, "the ranks' DataParallelOptions differ: " + *different_options);
}

std::uint64_t verify_equal(const ProcessGroup& group, std::span<const Tensor> parameters, Stream stream) {
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
    throw Error(ErrorKind::mismatch, "the parameters of " + base::ranks_text(different) +
                                         " differ from those of rank 0. Does every rank step the same optimizer on the "
                                         "averaged gradients?");
  }
  return hash.value();
}

}  // namespace ddp::internal
