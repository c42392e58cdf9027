// NcclLane runs operations one after another, on its own communicator and stream. A group has one lane for its
// collectives and one for each rank that it sends to or receives from.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "runtime/backend/nccl/cuda_resources.h"
#include "runtime/backend/nccl/gpu_marks.h"
#include "runtime/backend/nccl/nccl_communicator.h"

namespace ddp::internal {

// This class never waits inside CUDA or NCCL for other ranks, because such a wait would never end if a rank is gone.
// The kernel of a collective spins until all ranks have joined or it is aborted. So the lane polls the communicator and
// the event in turn, until both are done, one has failed or the time is up.
//
// In every call, the lane's device is current for the thread.
class NcclLane {
 public:
  // `rank` and `size` are the rank numbers that the calls use.
  NcclLane(const CudaApi& cuda, int rank, int size, std::unique_ptr<NcclCommunicator> communicator);
  ~NcclLane();
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;

  NcclCommunicator& communicator() { return *communicator_; }

  // From now on, the stream marks which operations it has begun and finished. No operation may be unfinished.
  void mark_with(std::unique_ptr<GpuMarks> marks) { marks_ = std::move(marks); }

  // Puts operations on GPU memory on the lane's stream, as one group. They follow the work that their own streams hold
  // now.
  void begin(std::span<const Call* const> calls);
  bool has_begun(const Call& call);
  // Waits until an operation that has begun is done.
  void finish(const Call& call);
  // Runs an operation that has not begun, with host memory too. No operation may be unfinished.
  void run(const Call& call);
  void join_stream(const Call& call);

  // Ends the communicator in order. No operation may be unfinished.
  void close() { communicator_->close(); }
  // Any thread may call it.
  void abort() { communicator_->abort(); }

 private:
  void wait_for_stream_of(const Call& call);
  void copy_all(std::span<const StagedCall::Copy> copies, const Call& call);
  void await(CudaEventHandle event, const Call& call);

  const CudaApi& cuda_;
  const int rank_;
  const int size_;
  CudaEvents events_;
  DeviceScratch token_;
  DeviceScratch scratch_;
  CudaStream stream_;
  const std::unique_ptr<NcclCommunicator> communicator_;
  std::unique_ptr<GpuMarks> marks_;  // may be null
  std::mutex mutex_;
  std::map<std::uint64_t, CudaEventHandle> begun_;  // by sequence: the event that marks the operation's end
};

}  // namespace ddp::internal
