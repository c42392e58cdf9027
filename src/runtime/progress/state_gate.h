// StateGate separates the changes of a program's state from its copies. There is one per process, because what changes
// the state (Optimizer), what copies it (StateKeeper) and what ends with an error (ProcessGroup) do not know each
// other.
#pragma once

#include <ddp/stream.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace ddp::internal {

// The states are: idle ──begin_change()──▶ changing ──end_change()──▶ idle ──try_copy()──▶ copying ──▶ idle.
// Any thread may use it.
class StateGate {
 public:
  static StateGate& of_process();

  // From now on, until end_change(), the state is that of no step. Waits while it is copied. Does nothing if a change
  // has begun, or if nothing keeps the state. If the state is in GPU memory, `stream` is the one that changes it, and
  // each caller that puts changes there calls it before.
  void begin_change(Stream stream = {});
  bool is_changing();
  // Ends a step. Returns whether a change had begun in it.
  bool end_change();

  // Runs `copy` when the state does not change. Returns false if that is not the case within `patience`, or when
  // `is_needless` returns true.
  bool try_copy(std::chrono::milliseconds patience, const std::function<bool()>& is_needless,
                const std::function<void()>& copy);

  // The functions of what keeps a state in GPU memory. They must not throw.
  struct GpuKeeper {
    std::function<void(Stream)> changes;  // begin_change() calls it
    std::function<void()> before_abort;
  };
  // `keep` is called before an operation fails because another rank was lost. Null ends that.
  void set_keeper(std::function<void()> keep, GpuKeeper of_gpu = {});
  void before_failure();
  // The caller is about to end kernels of a collective, after which the GPU goes on with what they leave.
  void before_abort();

 private:
  enum class State { idle, changing, copying };

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  std::function<void()> keep_;
  GpuKeeper of_gpu_;
};

}  // namespace ddp::internal
