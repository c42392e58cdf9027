// NcclLane runs operations one after another, on its own communicator and stream. A group has one lane for its
// collectives and one for each rank that it sends to or receives from.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "runtime/backend/backend.h"
#include "runtime/backend/nccl/cuda_resources.h"
#include "runtime/backend/nccl/gpu_heap.h"
#include "runtime/backend/nccl/gpu_marks.h"
#include "runtime/backend/nccl/nccl_communicator.h"
#include "runtime/backend/nccl/nccl_steps.h"

namespace ddp::internal {

class GpuKernels;

// This class never waits inside CUDA or NCCL for other ranks, because such a wait would never end if a rank is gone.
// The kernel of a collective spins until all ranks have joined or it is aborted. So the lane polls the communicator and
// the event in turn, until both are done, one has failed or the time is up.
//
// In every call, the lane's device is current for the thread.
class NcclLane {
 public:
  // `rank` and `size` are the rank numbers that the calls use. The heap follows the lane's stream and those of its
  // calls. `host_waits` counts the threads that wait on the host for the lane's operations.
  NcclLane(const CudaApi& cuda, int rank, int size, std::unique_ptr<NcclCommunicator> communicator,
           std::shared_ptr<GpuHeap> heap, const std::atomic<int>& host_waits);
  ~NcclLane();
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;

  NcclCommunicator& communicator() { return *communicator_; }

  // From now on, the stream marks which operations it has begun and finished. No operation may be unfinished.
  void mark_with(std::unique_ptr<GpuMarks> marks) { marks_ = std::move(marks); }

  // From now on, minima and maxima of floating-point values can be reduced (reduces_in_order()).
  void order_with(GpuKernels* kernels) { kernels_ = kernels; }

  // Puts operations on GPU memory on the lane's stream, as one group. A reduction in order comes alone. They follow the
  // work that their own streams hold now. If NCCL must first connect the ranks for them, it waits for these, for up to
  // the first call's timeout, or does nothing and returns false unless it `may_wait`.
  bool begin(std::span<const Call* const> calls, bool may_wait);
  bool has_begun(const Call& call);
  // Waits until an operation that has begun is done.
  void finish(const Call& call);
  // Returns when the host saw the GPU begin and end the operation that finish() or run() waited for last. Returns
  // std::nullopt if the operations are not marked, or if both were done before the host looked.
  std::optional<GpuSpan> last_span() const { return last_span_; }
  // Runs an operation that has not begun, with host memory too. No operation may be unfinished.
  void run(const Call& call);
  void join_stream(const Call& call);

  // Says by when NCCL must have ended before the destructor gives up. Without it, that is at once.
  void wait_until(std::chrono::steady_clock::time_point until) { until_ = until; }
  // Any thread may call it.
  void abort() { communicator_->abort(); }

 private:
  // Makes the lane's stream wait for the work that the call's stream holds now. Returns the event of that work, which
  // the caller puts back, or null if the call has no stream.
  CudaEventHandle wait_for_stream_of(const Call& call);
  // Returns the block, with at least so many bytes. Only the lane's stream uses it.
  std::byte* reserve(GrowingBlock& block, std::size_t bytes) {
    return block.reserve(bytes, [this](std::size_t wanted) { return heap_->allocate(wanted, stream_.handle()); });
  }
  // Returns the call on integers, which lie in the output if there is room.
  Call on_integers(const Call& call);
  void copy_all(std::span<const StagedCall::Copy> copies, const Call& call);
  void await(CudaEventHandle event, const Call& call);

  const CudaApi& cuda_;
  const int rank_;
  const int size_;
  const std::atomic<int>& host_waits_;
  const std::shared_ptr<GpuHeap> heap_;
  CudaEvents events_;
  std::shared_ptr<void> token_;  // one byte for barriers
  GrowingBlock scratch_;         // stages host buffers; grows to the largest call
  GrowingBlock integers_;        // of reductions in order; grows to the largest call
  GpuKernels* kernels_ = nullptr;
  CudaStream stream_;
  const std::unique_ptr<NcclCommunicator> communicator_;
  NcclConnections connections_;
  std::unique_ptr<GpuMarks> marks_;  // may be null
  std::mutex mutex_;
  std::map<std::uint64_t, CudaEventHandle> begun_;  // by sequence: the event that marks the operation's end
  std::optional<GpuSpan> last_span_;                // only the thread that runs operations uses it
  std::chrono::steady_clock::time_point until_{};
};

}  // namespace ddp::internal
