#include <ddp/extension/framework_adapter.h>

#include <utility>

#include "runtime/ddp/data_parallel_engine.h"

namespace ddp {

void FrameworkAdapter::on_step_end(std::function<void()> ended) {
  data_parallel_.engine().on_step_end(std::move(ended));
}

void FrameworkAdapter::tell_gradients(std::function<bool(std::size_t parameter)> has_gradient) {
  data_parallel_.engine().tell_gradients(std::move(has_gradient));
}

std::span<const std::size_t> FrameworkAdapter::dropped_parameters() const {
  return data_parallel_.engine().reducer().dropped();
}

void FrameworkAdapter::forward_broadcasts_buffers() {
  data_parallel_.engine().set_forward_broadcasts_buffers();
}

bool FrameworkAdapter::is_joined() const {
  return data_parallel_.engine().mode().is_joined;
}

void FrameworkAdapter::use_stream(Stream stream) {
  data_parallel_.engine().use_stream(stream);
}

std::shared_ptr<void> FrameworkAdapter::gradient_memory() const {
  return data_parallel_.engine().reducer().memory();
}

bool FrameworkAdapter::step_began() const {
  return data_parallel_.engine().step_began();
}

}  // namespace ddp
