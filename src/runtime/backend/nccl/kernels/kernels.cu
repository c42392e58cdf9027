// These kernels compute for GpuKernels. The compiler is clang 14 without NVIDIA's headers; scripts/kernels runs it and
// writes kernels.ptx. See docs/development/decisions/0044-kernels-as-ptx-text.md.
//
// Every multiplication and addition is rounded by itself, as on the host, so most results are bit-identical to the
// host's. All blocks have kThreads threads. An element-wise kernel works with any number of blocks. A kernel that adds
// up gives the same bits only with the same number of blocks.
#include "runtime/backend/nccl/kernels/elements.cuh"
#include "runtime/backend/nccl/kernels/low_rank.cuh"
#include "runtime/backend/nccl/kernels/optimizers.cuh"
#include "runtime/backend/nccl/kernels/ordered.cuh"
#include "runtime/backend/nccl/kernels/selection.cuh"
