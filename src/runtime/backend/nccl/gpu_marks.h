// GpuMarks lets the GPU itself report how far a group's collectives are. Their stream writes numbers onto the status
// page. The launcher reads them there, even while the host thread, the driver or a kernel hangs.
// See docs/development/decisions/0021-the-gpu-says-how-far-it-is.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backend/nccl/cuda_api.h"
#include "wire/status_page_layout.h"

namespace ddp::internal {

// Marks the collectives of one stream. Only one thread at a time may use it, and the stream's device must be current
// for that thread.
class GpuMarks {
 public:
  // Lets the GPU see the page, which must stay in place until the process ends. If the GPU or the driver cannot do
  // that, nothing is marked. That is not a failure.
  GpuMarks(const CudaApi& cuda, wire::StatusPageLayout& page, wire::PageGroup& place);

  // These functions surround the work that carries out the collectives up to number `last`. Number 0 and the library's
  // own collectives are not marked. The end of collectives that move few bytes is not marked, because a mark costs a
  // part of their time; the end of later ones shows theirs, too.
  void before(std::uint64_t last, CudaStreamHandle stream);
  void after(std::uint64_t last, std::size_t bytes, CudaStreamHandle stream);

 private:
  bool marks(std::uint64_t last) const;
  void write(std::size_t offset, std::uint64_t number, CudaStreamHandle stream);

  const CudaApi& cuda_;
  wire::PageGroup& place_;
  std::byte* seen_at_ = nullptr;  // the place as the GPU sees it, null if the GPU cannot see it
};

}  // namespace ddp::internal
