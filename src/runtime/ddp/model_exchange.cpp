#include "runtime/ddp/model_exchange.h"

#include <vector>

#include "runtime/ddp/element_math.h"

namespace ddp::internal {
namespace {

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

}  // namespace ddp::internal
