#include <ddp/extension/framework_adapter.h>

#include <utility>

#include "runtime/ddp/data_parallel_engine.h"

namespace ddp {

void FrameworkAdapter::on_step_end(std::function<void()> ended) {
  data_parallel_.engine().step_ended = std::move(ended);
}

void FrameworkAdapter::tell_gradients(std::function<bool(std::size_t parameter)> has_gradient) {
  auto& state = data_parallel_.engine();
  // A rank without data still has the gradients of its last step, which do not count in another rank's step.
  state.reducer.has_gradient = [&state, has_gradient = std::move(has_gradient)](std::size_t parameter) {
    return !state.is_shadow && has_gradient(parameter);
  };
}

std::span<const std::size_t> FrameworkAdapter::dropped_parameters() const {
  return data_parallel_.engine().reducer.dropped();
}

void FrameworkAdapter::forward_broadcasts_buffers() {
  data_parallel_.engine().forward_broadcasts_buffers = true;
}

bool FrameworkAdapter::is_joined() const {
  return data_parallel_.engine().is_joined;
}

void FrameworkAdapter::use_stream(Stream stream) {
  data_parallel_.engine().use_stream(stream);
}

std::shared_ptr<void> FrameworkAdapter::gradient_memory() const {
  return data_parallel_.engine().reducer.memory();
}

bool FrameworkAdapter::step_began() const {
  return data_parallel_.engine().step_began();
}

}  // namespace ddp
