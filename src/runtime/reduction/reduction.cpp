#include "runtime/reduction/reduction.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>

#include "base/check.h"
#include "runtime/reduction/kernels.h"

namespace ddp::internal {
namespace {

ReductionKernels::Step step_of(ReduceOp op, std::span<const ReductionSource> sources) {
  using Steps = ReductionKernels;
  // These steps are in the order of ReduceOp::Kind.
  constexpr std::array kSteps = {Steps::sum,     Steps::sum,    Steps::product, Steps::min, Steps::max,
                                 Steps::bit_and, Steps::bit_or, Steps::bit_xor, Steps::sum};
  static_assert(kSteps.size() == ReduceOp::premultiplied_sum + 1);
  DDP_CHECK(op.kind < kSteps.size(), static_cast<int>(op.kind));
  const ReductionKernels::Step step = kSteps[op.kind];
  if (step != Steps::sum) return step;
  const auto is_scaled = [](const ReductionSource& source) { return source.factor != 1; };
  return std::ranges::any_of(sources, is_scaled) ? Steps::scaled_sum : step;
}

#ifdef __x86_64__
// __builtin_cpu_supports() of clang 14 does not know "f16c".
bool has_f16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

const ReductionKernels& reduction_kernels() {
#ifdef __x86_64__
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && has_f16c();
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
