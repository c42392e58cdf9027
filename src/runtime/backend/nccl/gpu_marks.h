// GpuMarks lets the GPU itself report how far a group's collectives are. A stream writes numbers onto the status page.
// The launcher reads them there, even while the host thread, the driver or a kernel hangs.
// See docs/development/decisions/0021-the-gpu-says-how-far-it-is.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/backend/nccl/cuda_resources.h"
#include "wire/status_page_layout.h"

namespace ddp::internal {

// Marks the collectives of one stream. The marks have a stream of their own, which waits for the same events, so they
// delay no collective. Only one thread at a time may use it, and the stream's device must be current for that thread.
class GpuMarks {
 public:
  // Lets the GPU see the page, which must stay in place until the process ends. If the GPU or the driver cannot do
  // that, nothing is marked. That is not a failure.
  GpuMarks(const CudaApi& cuda, wire::StatusPageLayout& page, wire::PageGroup& place);

  // The caller is about to launch the collectives up to number `last`. Number 0 and the library's own collectives are
  // not marked.
  void queue(std::uint64_t last);
  // The caller has launched them. They have begun when the events `ready` and the marks before are done, and are
  // finished when `done` is.
  void mark(std::uint64_t last, std::span<const CudaEventHandle> ready, CudaEventHandle done);

  // Returns whether the GPU has begun the collective, which the caller has launched. Returns false if it is not marked.
  bool has_begun(std::uint64_t number) const {
    return marks(number) && place_.gpu_started.load(wire::kRelaxed) >= number;
  }

 private:
  bool marks(std::uint64_t last) const;
  void give_up();

  const CudaApi& cuda_;
  wire::PageGroup& place_;
  CudaStream stream_;
  std::byte* seen_at_ = nullptr;  // the place as the GPU sees it, null if the GPU cannot see it
};

}  // namespace ddp::internal
