// Saves and restores the state of a DistributedDataParallel around a rehearsal.
#include <ddp/error.h>
#include <ddp/optimizer.h>
#include <ddp/rehearsal.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "runtime/ddp/data_parallel_engine.h"

namespace ddp {

using namespace internal;

namespace {

// Holds copies of tensors in host memory.
class SavedTensors {
 public:
  explicit SavedTensors(DataParallelEngine& engine) : engine_(engine) {}

  void add(const Buffer& buffer) {
    if (buffer.count == 0) return;
    Saved& saved = saved_.emplace_back(Saved{buffer, std::vector<std::byte>(buffer.bytes())});
    copy({saved.values.data(), buffer.count, buffer.type}, buffer, buffer.device);
  }
  void restore() {
    for (Saved& saved : saved_) {
      copy(saved.where, {saved.values.data(), saved.where.count, saved.where.type}, saved.where.device);
    }
    saved_.clear();
  }

 private:
  struct Saved {
    Buffer where;
    std::vector<std::byte> values;
  };

  void copy(const Buffer& to, const ConstBuffer& from, DeviceType device) const {
    if (device == DeviceType::cuda) return engine_.group().copy(to, from, engine_.gpu_stream());
    std::memcpy(to.data, from.data, from.bytes());
  }

  DataParallelEngine& engine_;
  std::vector<Saved> saved_;
};

}  // namespace

Rehearsal::~Rehearsal() = default;

void Rehearsal::undo_model(const DistributedDataParallel& data_parallel) {
  saves_.push_back([data_parallel]() -> Restore {
    DataParallelEngine& engine = data_parallel.engine();
    const auto state = std::make_shared<SavedTensors>(engine);
    const auto gradients = std::make_shared<SavedTensors>(engine);
    for (const Tensor& tensor : engine.parameters()) state->add(tensor.data);
    for (const Tensor& tensor : engine.model_buffers()) state->add(tensor.data);
    for (Optimizer* optimizer : engine.optimizers()) {
      for (const TensorShard& tensor : optimizer->state()) state->add(tensor.data);
    }
    for (const DataType type : kDataTypes) gradients->add(engine.reducer().arena(type));
    engine.begin_rehearsal();
    return [&engine, state, gradients] {
      state->restore();
      // Reductions of a step that has not ended may still write to the gradients.
      if (!engine.step_began()) gradients->restore();
      engine.end_rehearsal();
    };
  });
}

void Rehearsal::undo_tensors(std::vector<TensorShard> tensors) {
  saves_.push_back([this, tensors = std::move(tensors)]() -> Restore {
    const auto saved = std::make_shared<SavedTensors>(data_parallel_.engine());
    for (const TensorShard& tensor : tensors) saved->add(tensor.data);
    return [saved] { saved->restore(); };
  });
}

void Rehearsal::begin(const std::string& what) {
  std::fprintf(stderr, "ddp: rank %d rehearses the last batch (%s); the step is undone afterwards\n",
               data_parallel_.group().rank(), what.c_str());
  was_made_ = true;
  is_running_ = true;
  phase_.emplace(Phase::training, "rehearsal of the last batch");
  try {
    for (const auto& save : saves_) restores_.push_back(save());
  } catch (...) {
    end();
    throw;
  }
}

void Rehearsal::end() {
  is_running_ = false;
  phase_.reset();
  for (const Restore& restore : std::exchange(restores_, {})) restore();
}

}  // namespace ddp
