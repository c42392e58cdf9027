#include <ddp/optimizer.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_engine.h"
#include "runtime/ddp/update_rules.h"
#include "runtime/progress/state_gate.h"

namespace ddp {

using namespace internal;

namespace {

// Returns "momentum", or "m" or "v", as checkpoints name the moments.
const char* moment_name(const Optimizer::Options& options, int moment) {
  if (std::holds_alternative<SgdOptions>(options)) return "momentum";
  return moment == 0 ? "m" : "v";
}

}  // namespace

class Optimizer::Implementation {
 public:
  Implementation(const DistributedDataParallel& data_parallel_, Options options_)
      : data_parallel(data_parallel_),
        options(options_),
        rate{std::visit([](const auto& chosen) { return chosen.learning_rate; }, options)},
        steps(data_parallel.parameters().size()),
        stepped_in(data_parallel.parameters().size(), -1) {
    const std::string fault = find_fault(options);
    if (!fault.empty()) refuse("Optimizer: " + fault);
    for (const ParameterPiece& piece : data_parallel.owned()) {
      const DataType type = piece.values.type;
      State state{piece, {}, {}};
      const DataType wide = type == DataType::f64 ? DataType::f64 : DataType::f32;
      for (int i = 0; i < moments_of(options); ++i)
        state.moments.emplace_back(nullptr, piece.values.count, wide, device());
      if (type == DataType::f16 || type == DataType::bf16)
        state.master = {nullptr, piece.values.count, DataType::f32, device()};
      states.push_back(std::move(state));
    }
    allocate();
    refresh_masters();
  }

  void refresh_masters() {
    const ElementMath math = element_math();
    for (State& state : states) {
      if (state.master.count > 0) math.convert(state.piece.values, state.master, 1);
    }
  }

  void step() {
    data_parallel.require_synchronized("Optimizer::step");
    const auto alone = std::find(stepped_in.begin(), stepped_in.end(), data_parallel.engine().finished_steps() - 1);
    if (alone != stepped_in.end()) refuse_again(static_cast<std::size_t>(alone - stepped_in.begin()));
    StateGate::of_process().begin_change(data_parallel.engine().gpu_stream());
    follow_rate();
    const auto unused = data_parallel.unused_parameters();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!std::binary_search(unused.begin(), unused.end(), i)) ++steps[i];
    }
    const ElementMath math = element_math();
    for (const State& state : states) {
      const std::size_t parameter = state.piece.parameter;
      if (std::binary_search(unused.begin(), unused.end(), parameter)) continue;
      apply(state, math);
    }
    scaled.reset();
    data_parallel.share_parameters();
  }

  void step(std::size_t index) {
    data_parallel.engine().require_compatible(Feature::parameter_step);
    data_parallel.wait(index);
    if (stepped_in[index] == data_parallel.engine().finished_steps()) refuse_again(index);
    StateGate::of_process().begin_change(data_parallel.engine().gpu_stream());
    stepped_in[index] = data_parallel.engine().finished_steps();
    follow_rate();
    ++steps[index];
    apply(states[index], element_math());
  }

  std::vector<TensorShard> state() {
    std::vector<TensorShard> result;
    for (const State& state : states) {
      if (state.piece.values.count == 0) continue;  // a tensor without elements is in no rank's share
      const Tensor& parameter = data_parallel.parameters()[state.piece.parameter];
      const auto add = [&](const char* what, const Buffer& buffer) {
        result.push_back(
            {std::string("optimizer.") + what + "." + parameter.name, buffer, parameter.shape, state.piece.first});
      };
      for (std::size_t i = 0; i < state.moments.size(); ++i) {
        add(moment_name(options, static_cast<int>(i)), state.moments[i]);
      }
      if (state.master.count > 0) add("master", state.master);
    }
    result.push_back({"optimizer.steps", steps, {std::ssize(steps)}, 0});
    result.push_back({"optimizer.learning_rate", rate, {1}, 0});
    return result;
  }

  bool is_scaled() const { return scaled && scaled->step == data_parallel.engine().finished_steps(); }

  const DistributedDataParallel data_parallel;
  Options options;
  std::array<double, 1> rate;
  // Holds the factor for the gradients of one step, and the number of that step.
  struct Scaled {
    std::int64_t step = 0;
    double factor = 1;
  };
  std::optional<Scaled> scaled;

 private:
  struct State {
    ParameterPiece piece;
    std::vector<Buffer> moments;
    Buffer master;
  };

  [[noreturn]] void refuse_again(std::size_t index) const {
    refuse("Optimizer::step: '" + data_parallel.parameters()[index].name + "' was updated by step(" +
           std::to_string(index) +
           ") in this step. Call step(index) once for each parameter, or step() "
           "once for all.");
  }

  // The program may compute on another stream than before.
  ElementMath element_math() const { return data_parallel.engine().math("Optimizer"); }

  void apply(const State& state, const ElementMath& math) const {
    const auto moment = [&](std::size_t i) { return i < state.moments.size() ? state.moments[i] : Buffer(); };
    math.update(options, steps[state.piece.parameter],
                {state.piece.values, state.piece.gradient, moment(0), moment(1), state.master, gradient_factor()});
  }

  double gradient_factor() const { return is_scaled() ? scaled->factor : 1; }

  // The rate may have come from a checkpoint.
  void follow_rate() {
    std::visit([&](auto& chosen) { chosen.learning_rate = rate[0]; }, options);
  }

  // Allocates the whole state at once, because each allocation on a GPU takes at least 2 MiB.
  void allocate() {
    const auto for_each_buffer = [this](const auto& function) {
      for (State& state : states) {
        for (Buffer& moment : state.moments) function(moment);
        function(state.master);
      }
    };
    constexpr std::size_t kAlignment = 256;  // GPUs read whole aligned lines
    const auto aligned = [](std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
    std::size_t bytes = 0;
    for_each_buffer([&](const Buffer& buffer) { bytes += aligned(buffer.bytes()); });
    std::byte* next = nullptr;
    if (device() == DeviceType::cuda) {
      gpu_memory = data_parallel.group().allocate(bytes, DataType::u8, DeviceType::cuda);
      next = static_cast<std::byte*>(gpu_memory.data());
    } else {
      host_memory.resize(bytes);
      next = host_memory.data();
    }
    for_each_buffer([&](Buffer& buffer) {
      if (buffer.count > 0) buffer.data = next;
      next += aligned(buffer.bytes());
    });
  }

  DeviceType device() const { return data_parallel.parameters().front().data.device; }

  std::vector<std::byte> host_memory;
  Memory gpu_memory;
  std::vector<State> states;
  std::vector<std::int64_t> steps;       // by parameter; an unused parameter does not step
  std::vector<std::int64_t> stepped_in;  // by parameter: how many steps were finished when step(index) was called last
};

Optimizer::Optimizer(const DistributedDataParallel& data_parallel, Options options)
    : implementation_(std::make_unique<Implementation>(data_parallel, options)) {
  data_parallel.engine().add_optimizer(this);
}

Optimizer::~Optimizer() {
  data_parallel().engine().remove_optimizer(this);
}

void Optimizer::step(CallSite site) {
  const CalledFrom here(site);
  implementation_->step();
}

void Optimizer::step(std::size_t index) {
  implementation_->step(index);
}

double Optimizer::learning_rate() const {
  return implementation_->rate[0];
}

void Optimizer::set_learning_rate(double learning_rate) {
  Options changed = implementation_->options;
  std::visit([&](auto& chosen) { chosen.learning_rate = learning_rate; }, changed);
  const std::string fault = find_fault(changed);
  if (!fault.empty()) refuse("Optimizer::set_learning_rate: " + fault);
  implementation_->rate = {learning_rate};
}

std::vector<TensorShard> Optimizer::state() {
  return implementation_->state();
}

bool Optimizer::gradients_are_scaled() const {
  return implementation_->is_scaled();
}

void Optimizer::scale_next_gradients(double factor) {
  implementation_->scaled = {implementation_->data_parallel.engine().finished_steps(), factor};
}

const DistributedDataParallel& Optimizer::data_parallel() const {
  return implementation_->data_parallel;
}

void Optimizer::refresh_masters() {
  implementation_->refresh_masters();
}

}  // namespace ddp
