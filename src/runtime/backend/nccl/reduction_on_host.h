// ReductionOnHost carries out the reductions that NCCL does not know. Such a call blocks.
#pragma once

#include "runtime/backend/backend.h"
#include "runtime/backend/nccl/gpu_heap.h"
#include "runtime/backend/nccl/nccl_lane.h"

namespace ddp::internal {

// The lane has no unfinished operation. The buffers may lie in host memory or in GPU memory.
struct ReductionOnHost {
  Backend& memory;  // copies
  NcclLane& lane;
  GpuHeap& heap;
  int rank = 0;
  int size = 1;

  void run(const Call& call) const;

 private:
  void reduce_all(const Call& call) const;
  void reduce_in_order(const Call& call) const;
};

}  // namespace ddp::internal
