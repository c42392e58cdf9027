// NcclLane: operations that follow each other, on a communicator and a stream of their own. A group has one for its
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

// Nothing in here waits inside CUDA or NCCL for other ranks, because such a wait has no end when one of them is gone:
// the kernel of a collective spins until all have come or it is aborted. Communicator and event are looked at in turn
// until both are done, one has failed or the time is up.
//
// The thread's current device is that of the lane, in every call.
class NcclLane {
 public:
  // `rank` and `size` are those of the calls.
  NcclLane(const CudaApi& cuda, int rank, int size, std::unique_ptr<NcclCommunicator> communicator);
  ~NcclLane();
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;

  NcclCommunicator& communicator() { return *communicator_; }

  // From now on the stream says which operations it has begun and done. Nothing is unfinished.
  void mark_with(std::unique_ptr<GpuMarks> marks) { marks_ = std::move(marks); }

  // Puts operations on GPU memory on the stream, as one group, after what their own streams hold now.
  void begin(std::span<const Call* const> calls);
  bool has_begun(const Call& call);
  // Waits until an operation that has begun is done.
  void finish(const Call& call);
  // All of an operation that has not begun, with host memory too. Nothing is unfinished then.
  void run(const Call& call);
  void join_stream(const Call& call);

  // Ends in order. Nothing is unfinished.
  void close() { communicator_->close(); }
  // Any thread.
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
  std::map<std::uint64_t, CudaEventHandle> begun_;  // by sequence: when the operation is done
};

}  // namespace ddp::internal
