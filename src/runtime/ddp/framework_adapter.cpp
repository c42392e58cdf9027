#include <ddp/framework_adapter.h>

#include <utility>

namespace ddp {

void FrameworkAdapter::on_step_end(std::function<void()> ended) {
  data_parallel_.on_step_end(std::move(ended));
}

void FrameworkAdapter::tell_gradients(std::function<bool(std::size_t parameter)> has_gradient) {
  data_parallel_.tell_gradients(std::move(has_gradient));
}

std::span<const std::size_t> FrameworkAdapter::dropped_parameters() const {
  return data_parallel_.dropped_parameters();
}

void FrameworkAdapter::forward_broadcasts_buffers() {
  data_parallel_.join_state().broadcasts_buffers = true;
}

bool FrameworkAdapter::is_joined() const {
  return data_parallel_.join_state().is_joined;
}

std::shared_ptr<void> FrameworkAdapter::gradient_memory() const {
  return data_parallel_.gradient_memory();
}

bool FrameworkAdapter::step_began() const {
  return data_parallel_.step_began();
}

}  // namespace ddp
