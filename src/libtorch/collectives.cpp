// This file implements the collectives of tensors. A tensor stays alive until the operation that uses it is done.
#include <ddp/error.h>
#include <ddp/libtorch.h>

#include <ATen/Version.h>
#include <torch/types.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libtorch/gpu_streams.h"

namespace ddp::libtorch {
namespace {

// Returns the version that at::show_config() reports, or an empty string if it reports none.
std::string loaded_version() {
  const std::string config = at::show_config();
  const std::string mark = "TORCH_VERSION=";
  const std::size_t begin = config.find(mark);
  if (begin == std::string::npos) return "";
  const std::size_t end = config.find_first_of(", \n", begin);
  return config.substr(begin + mark.size(), end - begin - mark.size());
}

// Returns "2.13.0" for "2.13.0+cpu".
std::string_view release_of(std::string_view version) {
  return version.substr(0, version.find('+'));
}

// Keeps the tensors until the operation is done, on a GPU until its streams have done it. libtorch's allocator cannot
// reuse their memory earlier, so it need not know of the runtime's streams.
Work keeping(Work work, std::vector<::torch::Tensor> tensors) {
  work.then([kept = std::move(tensors)](const Error*) {});
  return work;
}

// Puts an operation on a tensor of a GPU into the order of libtorch's current stream, unless the program chose a
// stream.
CallOptions ordered(const ProcessGroup& group, const ::torch::Tensor& tensor, CallOptions options) {
  if (!tensor.defined() || !tensor.is_cuda()) return options;
  require_own_gpu(group, "the tensor", tensor.device());
  if (!options.stream) options.stream = to_runtime(current_stream(tensor.device()));
  return options;
}

}  // namespace

void require_libtorch(std::string_view compiled_with) {
  static const std::string loaded = loaded_version();
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorKind::unavailable, "ddplaunch's adapter was built for libtorch " TORCH_VERSION ", and " + what +
                                            ". Use that libtorch, or build ddplaunch with this one "
                                            "(-DCMAKE_PREFIX_PATH=the folder of libtorch).");
  };
  if (release_of(compiled_with) != release_of(TORCH_VERSION)) {
    refuse("the program was compiled with " + std::string(compiled_with));
  }
  if (!loaded.empty() && release_of(loaded) != release_of(TORCH_VERSION)) refuse("the process has loaded " + loaded);
}

Work all_reduce(const ProcessGroup& group, const ::torch::Tensor& tensor, ReduceOp op, const CallOptions& options,
                CallSite site) {
  return keeping(group.all_reduce(buffer_of(tensor), op, ordered(group, tensor, options), site), {tensor});
}

Work reduce(const ProcessGroup& group, const ::torch::Tensor& tensor, int root, ReduceOp op, const CallOptions& options,
            CallSite site) {
  return keeping(group.reduce(buffer_of(tensor), root, op, ordered(group, tensor, options), site), {tensor});
}

Work broadcast(const ProcessGroup& group, const ::torch::Tensor& tensor, int root, const CallOptions& options,
               CallSite site) {
  return keeping(group.broadcast(buffer_of(tensor), root, ordered(group, tensor, options), site), {tensor});
}

Work all_gather(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input,
                const CallOptions& options, CallSite site) {
  return keeping(group.all_gather(buffer_of(output), buffer_of(input), ordered(group, input, options), site),
                 {output, input});
}

Work all_gather(const ProcessGroup& group, std::span<const ::torch::Tensor> outputs, const ::torch::Tensor& input,
                const CallOptions& options, CallSite site) {
  std::vector<Buffer> buffers;
  for (const ::torch::Tensor& output : outputs) buffers.push_back(buffer_of(output));
  std::vector<::torch::Tensor> tensors(outputs.begin(), outputs.end());
  tensors.push_back(input);
  return keeping(group.all_gather(buffers, buffer_of(input), ordered(group, input, options), site), std::move(tensors));
}

Work gather(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input, int root,
            const CallOptions& options, CallSite site) {
  const bool takes = group.rank() == root;
  return keeping(
      group.gather(takes ? buffer_of(output) : Buffer(), buffer_of(input), root, ordered(group, input, options), site),
      {output, input});
}

Work scatter(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input, int root,
             const CallOptions& options, CallSite site) {
  const bool gives = group.rank() == root;
  return keeping(group.scatter(buffer_of(output), gives ? ConstBuffer(buffer_of(input)) : ConstBuffer(), root,
                               ordered(group, output, options), site),
                 {output, input});
}

Work reduce_scatter(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input, ReduceOp op,
                    const CallOptions& options, CallSite site) {
  return keeping(group.reduce_scatter(buffer_of(output), buffer_of(input), op, ordered(group, input, options), site),
                 {output, input});
}

Work all_to_all(const ProcessGroup& group, const ::torch::Tensor& output, const ::torch::Tensor& input,
                const CallOptions& options, CallSite site) {
  return keeping(group.all_to_all(buffer_of(output), buffer_of(input), ordered(group, input, options), site),
                 {output, input});
}

Work send(const ProcessGroup& group, const ::torch::Tensor& tensor, int to, const CallOptions& options, CallSite site) {
  return keeping(group.send(buffer_of(tensor), to, ordered(group, tensor, options), site), {tensor});
}

Work recv(const ProcessGroup& group, const ::torch::Tensor& tensor, int from, const CallOptions& options,
          CallSite site) {
  return keeping(group.recv(buffer_of(tensor), from, ordered(group, tensor, options), site), {tensor});
}

}  // namespace ddp::libtorch
