// These kernels handle elements one by one, and compute the norm of a buffer.
#pragma once

#include "runtime/backend/nccl/kernels/support.cuh"

template <typename From, typename To>
DEVICE void convert(const From* from, To* to, u64 count, f64 factor) {
  const auto number = static_cast<NumberOf<To>>(factor);
  for_each(count, is_aligned(from) && is_aligned(to), [=](auto width, u64 i) {
    const auto numbers = load(width, from, i);
    Numbers<To, width.value> result;
    UNROLLED for (int k = 0; k < width.value; ++k) result.at[k] = static_cast<NumberOf<To>>(numbers.at[k]) * number;
    store(to, i, result);
  });
}

#define CONVERT(FROM, TO)                                                             \
  KERNEL ddp_convert_##FROM##_##TO(const FROM* from, TO* to, u64 count, f64 factor) { \
    convert(from, to, count, factor);                                                 \
  }
#define CONVERT_TO_ALL(FROM) CONVERT(FROM, f16) CONVERT(FROM, bf16) CONVERT(FROM, f32) CONVERT(FROM, f64)
CONVERT_TO_ALL(f16)
CONVERT_TO_ALL(bf16)
CONVERT_TO_ALL(f32)
CONVERT_TO_ALL(f64)

KERNEL ddp_add(const f32* from, f32* to, u64 count, f64 factor, u32 only_finite) {
  const auto number = static_cast<f32>(factor);
  for_each(count, is_aligned(from) && is_aligned(to), [=](auto width, u64 i) {
    const auto numbers = load(width, from, i);
    auto result = load(width, static_cast<const f32*>(to), i);
    UNROLLED for (int k = 0; k < width.value; ++k) {
      result.at[k] += only_finite != 0 && !is_finite(numbers.at[k]) ? 0 : numbers.at[k] * number;
    }
    store(to, i, result);
  });
}

template <typename T>
DEVICE void sum_of_squares(const T* values, u64 count, f64* sums) {
  SHARED static f64 shared[kThreads];
  f64 sum = 0;
  for_each(count, is_aligned(values), [&](auto width, u64 i) {
    const auto numbers = load(width, values, i);
    UNROLLED for (int k = 0; k < width.value; ++k) {
      const auto number = static_cast<f64>(numbers.at[k]);
      sum += number * number;
    }
  });
  sum = block_sum(sum, shared);
  if (thread() == 0) sums[block()] = sum;
}

// Sets `found` to 1 if an element is not finite. All threads that write it write the same.
template <typename T>
DEVICE void find_infinite(const T* values, u64 count, u32* found) {
  bool all = true;
  for_each(count, is_aligned(values), [&](auto width, u64 i) {
    const auto numbers = load(width, values, i);
    UNROLLED for (int k = 0; k < width.value; ++k) all = all && is_finite(numbers.at[k]);
  });
  if (!all) *found = 1;
}

#define REDUCE(T)                                                        \
  KERNEL ddp_sum_of_squares_##T(const T* values, u64 count, f64* sums) { \
    sum_of_squares(values, count, sums);                                 \
  }                                                                      \
  KERNEL ddp_find_infinite_##T(const T* values, u64 count, u32* found) { \
    find_infinite(values, count, found);                                 \
  }
REDUCE(f16)
REDUCE(bf16)
REDUCE(f32)
REDUCE(f64)
