// Rehearsal runs an epoch's last batch first and undoes the step, so that its shape does not fail after hours.
#pragma once

#include <ddp/buffer.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/export.h>
#include <ddp/progress.h>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddp {

// Undoes the first step of a loop over a DataLoader whose LoaderOptions::rehearse_last_batch points to it. The loop
// gets the last batch of the epoch first, if its size is not that of the other batches. When it asks for the next
// batch, everything that the object undoes is as before, and the loop gets the first batch. The training
// continues bit-identically. The object rehearses once. All ranks must rehearse.
//
// It undoes all changes of a DistributedDataParallel, of its gradients and model buffers, and of its Optimizers. While
// it runs, LossScaler, LocalSgd and statistics do not count the step, an accumulation window has one micro-step, and a
// communication hook is replaced by the plain mean. Name everything else that a step changes:
//
//   std::mt19937 dropout;
//   std::vector<float> running_mean(64);
//   ddp::Rehearsal rehearsal(data_parallel, dropout, running_mean);
//   ddp::DataLoader loader(dataset, sampler, {.batch_size = 32, .rehearse_last_batch = &rehearsal});
//   for (auto& batch : loader) {
//     …                                            // one step
//     if (rehearsal.is_running()) continue;
//     sampler.consume(std::ssize(batch.indices));  // counters, output, checkpoints
//   }
//
// Values are copied before the step and assigned after it. Tensors (Tensor, TensorShard, a vector of them) stand for
// their elements. A function that takes no argument saves something, and returns the function that restores it. What a
// program has written to files or sent to others is not undone.
//
// The copies are in host memory, so that the rehearsal needs no more GPU memory than the step. It keeps a handle of the
// DistributedDataParallel. The other objects that it refers to must outlive it. Use it from one thread.
class DDP_EXPORT Rehearsal {
 public:
  using Restore = std::function<void()>;

  template <typename... Values>
  explicit Rehearsal(const DistributedDataParallel& data_parallel, Values&&... values) : data_parallel_(data_parallel) {
    undo_model(data_parallel);
    (undo(std::forward<Values>(values)), ...);
  }
  ~Rehearsal();
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  // Returns whether the present batch is the rehearsal's.
  bool is_running() const { return is_running_; }

  // DataLoader calls these functions. begin() prints `what`. Throws invalid_argument in the middle of a step or of an
  // accumulation window, and if a Join exists.
  void begin(const std::string& what);
  void end();
  bool was_made() const { return was_made_; }

 private:
  void undo_model(const DistributedDataParallel& data_parallel);
  void undo_tensors(std::vector<TensorShard> tensors);

  template <typename T>
  void undo(T&& value) {
    using Value = std::remove_cvref_t<T>;
    if constexpr (std::same_as<Value, DistributedDataParallel>) {
      undo_model(value);  // a further one
    } else if constexpr (requires { TensorShard(value); }) {
      undo_tensors({TensorShard(value)});
    } else if constexpr (requires { TensorShard(*std::ranges::begin(value)); }) {
      undo_tensors(std::vector<TensorShard>(std::ranges::begin(value), std::ranges::end(value)));
    } else if constexpr (requires { static_cast<Restore>(value()); }) {
      saves_.push_back([save = Value(std::forward<T>(value))]() mutable -> Restore { return save(); });
    } else {
      static_assert(std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>,
                    "a Rehearsal needs the variable, because it assigns the old value to it");
      static_assert(std::copyable<Value> && !std::is_pointer_v<Value> && !std::same_as<Value, Buffer>,
                    "a Rehearsal copies values. For other state, give it a function that saves, and returns the "
                    "function that restores. The library's optimizers need not be named.");
      saves_.push_back([&value]() -> Restore {
        return [&value, before = std::make_shared<const Value>(value)] { value = *before; };
      });
    }
  }

  const DistributedDataParallel data_parallel_;
  std::vector<std::function<Restore()>> saves_;
  std::vector<Restore> restores_;
  std::optional<PhaseScope> phase_;
  bool is_running_ = false;
  bool was_made_ = false;
};

}  // namespace ddp
