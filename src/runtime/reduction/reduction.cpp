#include "runtime/reduction/reduction.h"

#include "base/check.h"
#include "runtime/reduction/kernels.h"

namespace ddp::internal {
namespace {

ReductionKernels::Step step_of(ReduceOp op, std::span<const ReductionSource> sources) {
  switch (op.kind) {
    case ReduceOp::sum:
    case ReduceOp::average:
    case ReduceOp::premultiplied_sum:
      for (const ReductionSource& source : sources) {
        if (source.factor != 1) return ReductionKernels::scaled_sum;
      }
      return ReductionKernels::sum;
    case ReduceOp::product:
      return ReductionKernels::product;
    case ReduceOp::min:
      return ReductionKernels::min;
    case ReduceOp::max:
      return ReductionKernels::max;
    case ReduceOp::bit_and:
      return ReductionKernels::bit_and;
    case ReduceOp::bit_or:
      return ReductionKernels::bit_or;
    case ReduceOp::bit_xor:
      return ReductionKernels::bit_xor;
  }
  DDP_CHECK(false, static_cast<int>(op.kind));
}

}  // namespace

const ReductionKernels& reduction_kernels() {
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  if (has_avx2) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

double factor_of(ReduceOp op, int size) {
  if (op.kind == ReduceOp::average) return 1.0 / size;
  return op.kind == ReduceOp::premultiplied_sum ? op.factor : 1;
}

void reduce(DataType type, ReduceOp op, std::span<const ReductionSource> sources, std::span<void* const> destinations,
            std::size_t count) {
  const ReductionKernel kernel = reduction_kernels().at(type, step_of(op, sources));
  DDP_CHECK(kernel != nullptr && !sources.empty() && !destinations.empty(), to_string(type), to_string(op.kind));
  kernel(sources, destinations, count);
}

void scale(const Buffer& buffer, double factor) {
  const ReductionSource source{buffer.data, factor};
  reduce(buffer.type, ReduceOp::premultiplied_sum, {&source, 1}, {&buffer.data, 1}, buffer.count);
}

void to_single(const ConstBuffer& from, float* to) {
  DDP_CHECK(is_floating_point(from.type), to_string(from.type));
  reduction_kernels().to_single[static_cast<std::size_t>(from.type)](from.data, to, from.count);
}

void from_single(const float* from, const Buffer& to) {
  DDP_CHECK(is_floating_point(to.type), to_string(to.type));
  reduction_kernels().from_single[static_cast<std::size_t>(to.type)](from, to.data, to.count);
}

}  // namespace ddp::internal
