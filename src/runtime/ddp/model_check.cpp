#include "runtime/ddp/model_check.h"

#include <ddp/error.h>

#include "runtime/group/agreement.h"

namespace ddp {
namespace {

// What is wrong with this rank's arguments; empty if nothing.
std::string find_parameter_fault(std::span<const Tensor> parameters, std::span<const Tensor> buffers) {
  if (parameters.empty()) return "DistributedDataParallel: no parameters";
  for (const Tensor& tensor : parameters) {
    if (!is_floating_point(tensor.data.type)) {
      return "parameter " + describe(tensor) + " is not of a floating-point type";
    }
  }
  const std::string fault = find_fault(parameters);
  return fault.empty() ? find_fault(buffers) : fault;
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
  if (options.shard_optimizer && options.hook) fault = "shard_optimizer goes with no communication hook";
  if (options.priority_chunk_bytes > 0 && (options.shard_optimizer || options.hook || options.find_unused)) {
    fault = "priority_chunk_bytes goes with neither shard_optimizer, a communication hook nor find_unused";
  }
  const auto disagreement = first_disagreement(
      group, fault.empty() ? describe_all(parameters) + describe_all(options.buffers) : "a fault: " + fault);
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, fault);
  if (disagreement) {
    throw Error(ErrorKind::mismatch,
                "the ranks' models differ: " + *disagreement +
                    ". All ranks must register the same parameters and buffers in the same order.");
  }
  const auto different_options = first_disagreement(group, describe_options(options));
  if (!different_options) return;
  throw Error(ErrorKind::mismatch, "the ranks' DataParallelOptions differ: " + *different_options);
}

}  // namespace ddp
