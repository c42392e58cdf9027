#include "runtime/ddp/hooks/parameter_state.h"

#include <utility>

namespace ddp::internal {

std::vector<ParameterState::Size> ParameterState::sizes_of(std::span<const Tensor> gradients) {
  std::vector<Size> sizes;
  for (const Tensor& gradient : gradients) sizes.push_back({gradient.name, gradient.data.count});
  return sizes;
}

std::vector<std::string> ParameterState::place(const ProcessGroup& group, const GradientBucket& bucket,
                                               const CompressionMath& math, const std::vector<Size>& sizes) {
  std::size_t total = 0;
  bool are_together = true;
  std::shared_ptr<Memory> shared;
  for (const Size& size : sizes) {
    const auto found = entries_.find(size.name);
    const bool is_placed = found != entries_.end() && found->second.values.count == size.count;
    if (is_placed && shared == nullptr) shared = found->second.memory;
    are_together = are_together && is_placed && found->second.memory == shared;
    total += size.count;
  }
  if (are_together) return {};

  const auto memory = std::make_shared<Memory>(group.allocate(total, DataType::f32, device_of(bucket)));
  std::vector<std::string> fresh;
  std::size_t first = 0;
  for (const Size& size : sizes) {
    const Buffer values = memory->buffer().slice(first, size.count);
    Entry& entry = entries_[size.name];
    if (entry.memory != nullptr && entry.values.count == size.count) {
      math.copy(entry.values, values);
    } else {
      fresh.push_back(size.name);
    }
    entry = {memory, values};
    first += size.count;
  }
  return fresh;
}

}  // namespace ddp::internal
