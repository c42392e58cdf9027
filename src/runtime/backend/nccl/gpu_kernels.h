// GpuKernels implements GpuMath with the kernels in kernels/. See
// docs/development/decisions/0044-kernels-as-ptx-text.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "runtime/backend/gpu_math.h"
#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/cuda_resources.h"
#include "runtime/backend/nccl/gpu_heap.h"

namespace ddp::internal {

// The text of the kernels, of which CMake makes a source from kernels.ptx.
extern const char* const kKernelsText;

class GpuKernels : public GpuMath {
 public:
  // Loads the kernels into the GPU's context, for which the driver compiles them, unless `libraries` holds them
  // already. Returns null if the driver refuses them, and prints a warning, once per process. Intermediate results lie
  // in memory of the heap, which follows the streams of the calls.
  static std::unique_ptr<GpuKernels> load(const std::shared_ptr<const GpuLibraries>& libraries, int device,
                                          std::shared_ptr<GpuHeap> heap);

  // These functions do on the GPU what those of runtime/reduction/ordered.h do. The buffers may be the same memory.
  void to_ordered(const ConstBuffer& from, bool nan_is_largest, const Buffer& to, Stream stream);
  void from_ordered(const ConstBuffer& from, const Buffer& to, Stream stream);

  void scale(const Buffer& values, double factor, Stream stream) override;
  void convert(const ConstBuffer& from, const Buffer& to, double factor, Stream stream) override;
  void add(const ConstBuffer& from, double factor, bool only_finite, const Buffer& to, Stream stream) override;
  double sum_of_squares(std::span<const ConstBuffer> buffers, Stream stream) override;
  bool are_finite(std::span<const ConstBuffer> buffers, Stream stream) override;
  void update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements,
              Stream stream) override;
  std::byte* scratch(std::size_t bytes, Stream stream) override;
  void forget(Stream stream) override;

 protected:
  using Functions = std::map<std::string, CudaFunctionHandle>;

  GpuKernels(std::shared_ptr<const GpuLibraries> libraries, int device, const Functions& functions,
             std::shared_ptr<GpuHeap> heap)
      : libraries_(std::move(libraries)),
        cuda_(libraries_->cuda),
        device_(device),
        functions_(functions),
        heap_(std::move(heap)) {}

 private:
  // Holds intermediate results of the functions on one stream. The stream's order protects them.
  struct Scratch {
    GrowingBlock device;
    GrowingBlock pinned;
  };

  void launch_kernel(const std::string& kernel, std::uint64_t blocks, std::span<const KernelParameter> parameters,
                     Stream stream) override;
  Scratch& scratch_of(Stream stream);
  // Copies the first bytes of the stream's scratch memory to the host, and waits for the stream.
  const std::byte* fetch(std::size_t bytes, Stream stream);

  const std::shared_ptr<const GpuLibraries> libraries_;
  const CudaApi& cuda_;
  const int device_;
  // The driver loads a kernel when the kernel is looked up, and waits for the whole device meanwhile. So all of them
  // are looked up at once.
  const Functions& functions_;
  const std::shared_ptr<GpuHeap> heap_;
  std::mutex mutex_;  // protects the map
  std::map<CudaStreamHandle, std::unique_ptr<Scratch>> scratch_;
};

}  // namespace ddp::internal
