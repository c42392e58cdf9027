// These kernels are for every processor. The compiler uses only the instructions that all processors of the
// architecture have.
#include "runtime/reduction/kernels.h"

namespace ddp::internal {
namespace {

// Scaling by powers of two lets the float unit renormalise values that have no hidden bit; see Float16.
void widen(const Float16* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t half = from[i].bits;
    const std::uint32_t magnitude = (half & 0x7fffU) << 13;
    const std::uint32_t sign = (half & 0x8000U) << 16;
    const float finite = __builtin_bit_cast(float, magnitude) * 0x1.0p+112F;
    const std::uint32_t special = magnitude | 0x7f800000U;
    const std::uint32_t value = (half & 0x7c00U) == 0x7c00U ? special : __builtin_bit_cast(std::uint32_t, finite);
    const std::uint32_t bits = value | sign;
    to[i] = __builtin_bit_cast(float, bits);
  }
}

void narrow(const float* from, Float16* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto whole = __builtin_bit_cast(std::uint32_t, from[i]);
    const std::uint32_t sign = (whole >> 16) & 0x8000U;
    const std::uint32_t magnitude = whole & 0x7fffffffU;
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5F;
    const std::uint32_t small = __builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000U;
    const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
    std::uint32_t bits = magnitude < 0x38800000U ? small : normal;
    bits = magnitude >= 0x477ff000U ? 0x7c00U : bits;
    // A NaN stays a NaN and keeps the payload's upper bits, as with the processor's own instruction.
    bits = magnitude > 0x7f800000U ? 0x7e00U | ((magnitude >> 13) & 0x3ffU) : bits;
    to[i].bits = static_cast<std::uint16_t>(sign | bits);
  }
}

}  // namespace
}  // namespace ddp::internal

#include "runtime/reduction/kernels_impl.h"

namespace ddp::internal {

const ReductionKernels kPortableKernels = kKernels;

}  // namespace ddp::internal
