// GpuMarks: the GPU's own word on how far a group's collectives are. Their stream writes numbers onto the progress
// page, where the launcher reads them while the host thread, the driver or a kernel hangs.
// docs/development/decisions/0021-the-gpu-says-how-far-it-is.md
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backend/nccl/cuda_api.h"
#include "wire/status_page_layout.h"

namespace ddp::internal {

// Of one stream. One thread at a time, whose current device is the stream's.
class GpuMarks {
 public:
  // Lets the GPU see the page, which must stay where it is until the process ends. A GPU or a driver that cannot do
  // that is no failure: nothing is marked then.
  GpuMarks(const CudaApi& cuda, wire::StatusPageLayout& page, wire::PageGroup& place);

  // Around what carries out the collectives up to number `last`; 0, and those of the library's own, are not marked.
  void before(std::uint64_t last, CudaStreamHandle stream);
  void after(std::uint64_t last, CudaStreamHandle stream);

 private:
  bool marks(std::uint64_t last) const;
  void write(std::size_t offset, std::uint64_t number, CudaStreamHandle stream);

  const CudaApi& cuda_;
  wire::PageGroup& place_;
  std::byte* seen_at_ = nullptr;  // the place, as the GPU sees it; null: it does not
};

}  // namespace ddp::internal
