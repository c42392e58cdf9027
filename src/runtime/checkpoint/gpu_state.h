// StepMarks and GpuState serve StateKeeper if tensors are in GPU memory
// (docs/development/decisions/0079-states-in-gpu-memory.md).
#pragma once

#include <ddp/buffer.h>
#include <ddp/stream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// Decides which step the tensors have, from marks on the program's stream, which the host records before the GPU
// reaches them. Use it from one thread at a time.
class StepMarks {
 public:
  using Mark = SideStream::Mark;

  struct Step {
    std::int64_t number = 0;
    Mark end;                           // when the GPU reaches it, the tensors have this step
    bool is_whole = false;              // the change of the tensors was marked in this step
    std::vector<std::byte> on_host;     // the state's tensors in host memory, after this step
    std::function<void()> write_final;  // called once, when the GPU has finished the step

    Mark next_change;  // when the GPU reaches it, the tensors have this step no longer; null if there is none yet
    bool is_written = false;
  };

  explicit StepMarks(std::function<bool(const Mark&)> is_reached) : is_reached_(std::move(is_reached)) {}

  // The tensors change after this mark.
  void begin_change(Mark mark);
  // Returns whether begin_change() was called since the last end_step().
  bool is_changing() const { return !steps_.empty() && steps_.back().next_change != nullptr; }
  void end_step(Step step) { steps_.push_back(std::move(step)); }

  // Calls write_final() of the steps that the GPU has finished, in their order, and forgets steps that are not needed
  // any more.
  void write_finished();
  std::size_t unwritten() const;
  // Returns the newest step that the GPU has finished, or null.
  const Step* finished() const;
  // Returns the step that the tensors have now, or null if that is none.
  const Step* present() const;
  // Returns whether present() may return a step later, without a further step of the program.
  bool may_have_step() const;

  // Nothing that the GPU does from now on counts.
  void close() { is_closed_ = true; }
  bool is_closed() const { return is_closed_; }

 private:
  const std::function<bool(const Mark&)> is_reached_;
  std::deque<Step> steps_;  // the newest that is written, if there is one, and later ones
  bool is_closed_ = false;
};

// A part of a tensor in GPU memory, and where it belongs in the state.
struct GpuPiece {
  const void* memory = nullptr;
  std::size_t bytes = 0;
  std::uint64_t at = 0;
};

// Makes all that a copy needs, because a GPU allocates nothing while a collective waits for a lost rank. It never waits
// for the program's stream.
class GpuState {
 public:
  // `side` is a stream of this backend. The tensors change on `stream`. It must not outlive the backend.
  GpuState(Backend& backend, Stream stream, std::unique_ptr<SideStream> side);

  // Throws invalid_argument if the stream captures a CUDA graph.
  SideStream::Mark mark() { return side_->mark(stream_.handle()); }
  // Copies the pieces to pinned memory, and calls `write` for what lies there. Another piece is copied meanwhile.
  // Returns whether all of it is of the step that is present. Throws `timeout`.
  using Write = std::function<void(std::uint64_t at, std::span<const std::byte> bytes)>;
  bool copy(std::span<const GpuPiece> pieces, const Write& write);

  StepMarks steps;

 private:
  struct Batch {
    std::byte* block = nullptr;
    std::size_t bytes = 0;
    std::vector<GpuPiece> parts;  // `memory` is in the block
    SideStream::Mark done;
  };
  void finish(const Batch& batch, const Write& write);

  const Stream stream_;
  const std::unique_ptr<SideStream> side_;
  std::array<std::shared_ptr<void>, 2> blocks_;
};

}  // namespace ddp::internal
