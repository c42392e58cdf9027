// These kernels map floating-point values to integers in the same order, and back. NCCL's minimum and maximum of
// integers then keep a NaN. runtime/reduction/ordered.h does the same in host memory.
#pragma once

#include "runtime/backend/nccl/kernels/support.cuh"

using i16 = short;
using i32 = int;
using i64 = long long;

// Bits is the type of a value's own bits, Integer is the type that NCCL reduces, and kInfinity has the bits of
// infinity.
template <typename T>
struct Ordered;
template <>
struct Ordered<f16> {
  using Bits = i16;
  using Integer = i32;
  static constexpr Bits kInfinity = 0x7c00;
};
template <>
struct Ordered<bf16> {
  using Bits = i16;
  using Integer = i32;
  static constexpr Bits kInfinity = 0x7f80;
};
template <>
struct Ordered<f32> {
  using Bits = i32;
  using Integer = i32;
  static constexpr Bits kInfinity = 0x7f800000;
};
template <>
struct Ordered<f64> {
  using Bits = i64;
  using Integer = i64;
  static constexpr Bits kInfinity = 0x7ff0000000000000;
};

// Applied twice, it returns the bits that it was given.
template <typename Bits>
DEVICE Bits in_order(Bits bits) {
  constexpr auto kMagnitude = static_cast<Bits>(~(Bits(1) << (8 * sizeof(Bits) - 1)));
  return bits < 0 ? static_cast<Bits>(bits ^ kMagnitude) : bits;
}

// A NaN becomes the largest or the smallest integer, which is in_order() of a NaN.
template <typename T>
DEVICE void to_ordered(const T* from, typename Ordered<T>::Integer* to, u64 count, bool nan_is_largest) {
  using Bits = typename Ordered<T>::Bits;
  constexpr auto kLargest = static_cast<Bits>(~(Bits(1) << (8 * sizeof(Bits) - 1)));
  const Bits nan = nan_is_largest ? kLargest : static_cast<Bits>(~kLargest);
  const auto* all = reinterpret_cast<const Bits*>(from);
  ROLLED for (u64 i = thread_of_all(); i < count; i += threads_of_all()) {
    const Bits bits = all[i];
    to[i] = static_cast<Bits>(bits & kLargest) > Ordered<T>::kInfinity ? nan : in_order(bits);
  }
}

template <typename T>
DEVICE void from_ordered(const typename Ordered<T>::Integer* from, T* to, u64 count) {
  using Bits = typename Ordered<T>::Bits;
  auto* all = reinterpret_cast<Bits*>(to);
  ROLLED for (u64 i = thread_of_all(); i < count; i += threads_of_all()) all[i] = in_order(static_cast<Bits>(from[i]));
}

#define ORDER(T)                                                                                     \
  KERNEL ddp_to_ordered_##T(const T* from, Ordered<T>::Integer* to, u64 count, u32 nan_is_largest) { \
    to_ordered(from, to, count, nan_is_largest != 0);                                                \
  }                                                                                                  \
  KERNEL ddp_from_ordered_##T(const Ordered<T>::Integer* from, T* to, u64 count) {                   \
    from_ordered(from, to, count);                                                                   \
  }
ORDER(f16)
ORDER(bf16)
ORDER(f32)
ORDER(f64)
