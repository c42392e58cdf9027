// This file holds the loops of the reductions. Exactly one file per kind of processor includes it. Everything in it has
// internal linkage, and its loops call nothing from elsewhere that could be inlined. Otherwise two files could compile
// one function for different processors. The linker would merge the copies and could keep the wrong one.
//
// Each block of elements goes through an accumulator that stays in the first-level cache. The first two sources are
// combined into it, the others are added to it, and it is copied (or rounded) to every destination. So no loop writes
// to memory that the compiler must assume to be a source. Therefore, the compiler vectorizes all loops.
//
// The including file defines, in an unnamed namespace, widen(const Float16*, float*, n) and narrow(const float*,
// Float16*, n).
#pragma once

#include <cstring>
#include <type_traits>

#include "runtime/reduction/kernels.h"

namespace ddp::internal {
namespace {

// A block has this many elements: 4 KiB of floats, so that the accumulator, one widened source and the data fit into 32
// KiB.
constexpr std::size_t kBlock = 1024;

void widen(const BFloat16* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(from[i].bits) << 16;
    to[i] = __builtin_bit_cast(float, bits);
  }
}
void narrow(const float* from, BFloat16* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = __builtin_bit_cast(std::uint32_t, from[i]);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40U;
    to[i].bits = static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
  }
}

// Determines how elements of T are computed: as they lie in memory, or widened into `scratch`.
template <typename T>
struct Computed {
  using Type = T;
  static const T* load(const void* from, T* /*scratch*/, std::size_t /*count*/) { return static_cast<const T*>(from); }
  static void store(const T* from, void* to, std::size_t count) { std::memcpy(to, from, count * sizeof(T)); }
};
template <typename Half>
struct Widened {
  using Type = float;
  static const float* load(const void* from, float* scratch, std::size_t count) {
    widen(static_cast<const Half*>(from), scratch, count);
    return scratch;
  }
  static void store(const float* from, void* to, std::size_t count) { narrow(from, static_cast<Half*>(to), count); }
};
template <>
struct Computed<Float16> : Widened<Float16> {};
template <>
struct Computed<BFloat16> : Widened<BFloat16> {};

// Integers wrap around, which is defined only for unsigned types.
template <typename T>
auto as_unsigned(T value) {
  if constexpr (!std::is_integral_v<T>) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<std::uint32_t>(value);  // 16 bits would be promoted to int
  } else {
    return static_cast<std::make_unsigned_t<T>>(value);
  }
}

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(as_unsigned(a) + as_unsigned(b));
  }
};
struct Product {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(as_unsigned(a) * as_unsigned(b));
  }
};
// `b != b` is true only for NaN, which wins. The compiler drops it for integers.
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;  // NOLINT(misc-redundant-expression)
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;  // NOLINT(misc-redundant-expression)
  }
};
struct And {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// Computes result[i] = a[i] (op) b[i], each times its factor.
template <typename Operation, bool scaled, typename T>
void combine(T* result, const T* a, T a_factor, const T* b, T b_factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (scaled) {
      result[i] = Operation::apply(a[i] * a_factor, b[i] * b_factor);
    } else {
      result[i] = Operation::apply(a[i], b[i]);
    }
  }
}

template <typename T>
void multiply(T* result, const T* values, T factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) result[i] = values[i] * factor;
}

// Combines the accumulator with one more source.
template <typename Operation, bool scaled, typename T>
void accumulate(T* accumulator, const T* next, T factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (scaled) {
      accumulator[i] = Operation::apply(accumulator[i], next[i] * factor);
    } else {
      accumulator[i] = Operation::apply(accumulator[i], next[i]);
    }
  }
}

template <typename T, typename Operation, bool scaled>
void reduce_blocks(std::span<const ReductionSource> sources, std::span<void* const> destinations, std::size_t count) {
  using Value = typename Computed<T>::Type;
  alignas(64) Value accumulator[kBlock];
  alignas(64) Value first_widened[kBlock];
  alignas(64) Value next_widened[kBlock];
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t length = count - first < kBlock ? count - first : kBlock;
    const std::size_t offset = first * sizeof(T);
    const auto load = [&](std::size_t k, Value* place) {
      return Computed<T>::load(static_cast<const char*>(sources[k].data) + offset, place, length);
    };
    const auto factor = [&](std::size_t k) { return static_cast<Value>(sources[k].factor); };
    const Value* result = load(0, first_widened);
    if (sources.size() > 1) {
      combine<Operation, scaled>(accumulator, result, factor(0), load(1, next_widened), factor(1), length);
      result = accumulator;
    } else if constexpr (scaled) {
      multiply(accumulator, result, factor(0), length);
      result = accumulator;
    }
    for (std::size_t k = 2; k < sources.size(); ++k) {
      accumulate<Operation, scaled>(accumulator, load(k, next_widened), factor(k), length);
    }
    for (void* destination : destinations) {
      char* place = static_cast<char*>(destination) + offset;
      if (static_cast<const void*>(place) != result) Computed<T>::store(result, place, length);
    }
  }
}

using Steps = ReductionKernels;

template <typename T>
constexpr std::array<ReductionKernel, Steps::kSteps> arithmetic() {
  std::array<ReductionKernel, Steps::kSteps> row{};
  row[Steps::sum] = reduce_blocks<T, Sum, false>;
  row[Steps::product] = reduce_blocks<T, Product, false>;
  row[Steps::min] = reduce_blocks<T, Min, false>;
  row[Steps::max] = reduce_blocks<T, Max, false>;
  return row;
}

template <typename T>
constexpr auto floating_point() {
  auto row = arithmetic<T>();
  row[Steps::scaled_sum] = reduce_blocks<T, Sum, true>;
  return row;
}

template <typename T>
constexpr auto integer() {
  auto row = arithmetic<T>();
  row[Steps::bit_and] = reduce_blocks<T, And, false>;
  row[Steps::bit_or] = reduce_blocks<T, Or, false>;
  row[Steps::bit_xor] = reduce_blocks<T, Xor, false>;
  return row;
}

// A bool is a byte that is 0 or 1.
constexpr auto boolean() {
  auto row = integer<std::uint8_t>();
  row[Steps::sum] = row[Steps::max] = row[Steps::bit_or];
  row[Steps::product] = row[Steps::min] = row[Steps::bit_and];
  return row;
}

template <typename T>
void load(const void* from, float* to, std::size_t count) {
  if constexpr (sizeof(T) == 2) {
    widen(static_cast<const T*>(from), to, count);
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<const T*>(from)[i]);
  }
}
template <typename T>
void store(const float* from, void* to, std::size_t count) {
  if constexpr (sizeof(T) == 2) {
    narrow(from, static_cast<T*>(to), count);
  } else {
    for (std::size_t i = 0; i < count; ++i) static_cast<T*>(to)[i] = static_cast<T>(from[i]);
  }
}

// The tables are in the order of DataType.
constexpr ReductionKernels kKernels{
    {floating_point<Float16>(), floating_point<BFloat16>(), floating_point<float>(), floating_point<double>(),
     integer<std::int8_t>(), integer<std::int16_t>(), integer<std::int32_t>(), integer<std::int64_t>(),
     integer<std::uint8_t>(), boolean()},
    {load<Float16>, load<BFloat16>, load<float>, load<double>},
    {store<Float16>, store<BFloat16>, store<float>, store<double>}};

}  // namespace
}  // namespace ddp::internal
