// These kernels are for processors with AVX2 and F16C. src/CMakeLists.txt compiles them with the options for these
// processors.
#include <immintrin.h>

#include "runtime/reduction/kernels.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kLanes = 8;

void widen(const Float16* from, float* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < count; ++i) to[i] = _cvtsh_ss(from[i].bits);
}

void narrow(const float* from, Float16* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  // _cvtss_sh() is not used, because clang 14 makes it a macro with a compound literal, which is not C++.
  for (; i < count; ++i) {
    const __m128i halves = _mm_cvtps_ph(_mm_set_ss(from[i]), _MM_FROUND_TO_NEAREST_INT);
    to[i].bits = static_cast<std::uint16_t>(_mm_extract_epi16(halves, 0));
  }
}

}  // namespace
}  // namespace ddp::internal

#include "runtime/reduction/kernels_impl.h"

namespace ddp::internal {

const ReductionKernels kAvx2Kernels = kKernels;

}  // namespace ddp::internal
