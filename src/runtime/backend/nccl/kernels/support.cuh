// What all kernels use: types of elements, threads, loads and stores, and sums over a block.
#pragma once

#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static __attribute__((device)) inline
#define SHARED __attribute__((shared))
#define ROLLED _Pragma("clang loop unroll(disable)")
#define UNROLLED _Pragma("clang loop unroll(full)")

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

constexpr u32 kThreads = 256;

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
using f32 = float;
using f64 = double;

// Storage is the type of an element in a register, and Number is the type in which it is computed.
template <typename T>
struct Element {
  using Storage = T;
  using Number = T;
  DEVICE T widened(T value) { return value; }
  DEVICE T narrowed(T value) { return value; }
};

template <>
struct Element<f16> {
  using Storage = u16;
  using Number = f32;
  DEVICE f32 widened(u16 bits) {
    f32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  DEVICE u16 narrowed(f32 value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
};

// Processors older than sm_80 have no instruction for bf16, so integers do the rounding to the nearest even number.
template <>
struct Element<bf16> {
  using Storage = u16;
  using Number = f32;
  DEVICE f32 widened(u16 bits) { return __builtin_bit_cast(f32, static_cast<u32>(bits) << 16); }
  DEVICE u16 narrowed(f32 value) {
    const u32 bits = __builtin_bit_cast(u32, value);
    const u32 rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const u32 quiet = (bits >> 16) | 0x40U;
    return static_cast<u16>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
  }
};

template <typename T>
using NumberOf = typename Element<T>::Number;

// Only for finite numbers, x - x is 0.
template <typename Number>
DEVICE bool is_finite(Number value) {
  return value - value == 0;
}

DEVICE f32 square_root(f32 value) {
  return __builtin_sqrtf(value);
}
DEVICE f64 square_root(f64 value) {
  return __builtin_sqrt(value);
}

DEVICE u32 thread() {
  return __nvvm_read_ptx_sreg_tid_x();
}
DEVICE u32 block() {
  return __nvvm_read_ptx_sreg_ctaid_x();
}
DEVICE u32 blocks() {
  return __nvvm_read_ptx_sreg_nctaid_x();
}
DEVICE u64 thread_of_all() {
  return static_cast<u64>(block()) * kThreads + thread();
}
DEVICE u64 threads_of_all() {
  return static_cast<u64>(blocks()) * kThreads;
}
// __syncthreads() is not used. The optimizer of clang 14 takes it for a function that cannot change a static variable,
// and then keeps the thread's own value of shared memory in a register.
DEVICE void wait_for_block() {
  asm volatile("bar.sync 0;" ::: "memory");
}
DEVICE void atomic_add(u32& sum, u32 value) {
  __nvvm_atom_add_gen_i(reinterpret_cast<int*>(&sum), static_cast<int>(value));
}
DEVICE void atomic_add(u64& sum, u64 value) {
  __nvvm_atom_add_gen_ll(reinterpret_cast<long long*>(&sum), static_cast<long long>(value));
}

// A thread loads this many elements at once where the buffers are aligned for that. Otherwise too few bytes would be
// under way for the memory's bandwidth.
constexpr int kPack = 4;

template <int kCount>
struct Width {
  static constexpr int value = kCount;
};

template <typename T, int kCount>
struct Numbers {
  NumberOf<T> at[kCount];
};

template <typename T>
DEVICE Numbers<T, 1> load(Width<1>, const T* values, u64 i) {
  return {{Element<T>::widened(reinterpret_cast<const typename Element<T>::Storage*>(values)[i])}};
}
// The compiler loads a vector of 16-bit elements one by one if assembly converts them, so they are loaded as a number.
template <typename T>
DEVICE Numbers<T, kPack> load(Width<kPack>, const T* values, u64 i) {
  Numbers<T, kPack> result;
  if constexpr (sizeof(T) == 2) {
    const u64 all = *reinterpret_cast<const u64*>(values + i);
    UNROLLED for (int k = 0; k < kPack; ++k) result.at[k] = Element<T>::widened(static_cast<u16>(all >> (16 * k)));
  } else {
    using Vector = T __attribute__((ext_vector_type(kPack)));
    const Vector vector = *reinterpret_cast<const Vector*>(values + i);
    UNROLLED for (int k = 0; k < kPack; ++k) result.at[k] = vector[k];
  }
  return result;
}
template <typename T>
DEVICE void store(T* values, u64 i, const Numbers<T, 1>& numbers) {
  reinterpret_cast<typename Element<T>::Storage*>(values)[i] = Element<T>::narrowed(numbers.at[0]);
}
template <typename T>
DEVICE void store(T* values, u64 i, const Numbers<T, kPack>& numbers) {
  using Vector = typename Element<T>::Storage __attribute__((ext_vector_type(kPack)));
  Vector vector;
  UNROLLED for (int k = 0; k < kPack; ++k) vector[k] = Element<T>::narrowed(numbers.at[k]);
  *reinterpret_cast<Vector*>(values + i) = vector;
}

template <typename T>
DEVICE bool is_aligned(const T* values) {
  return reinterpret_cast<u64>(values) % (kPack * sizeof(T)) == 0;
}

// Calls function(width, i) for pieces of `width` elements from i on, so that all threads together handle each element
// once.
template <typename Function>
DEVICE void for_each(u64 count, bool are_aligned, const Function& function) {
  u64 packed = 0;
  if (are_aligned) {
    packed = count / kPack * kPack;
    ROLLED for (u64 i = thread_of_all() * kPack; i < packed; i += threads_of_all() * kPack) {
      function(Width<kPack>(), i);
    }
  }
  ROLLED for (u64 i = packed + thread_of_all(); i < count; i += threads_of_all()) function(Width<1>(), i);
}

// Adds up one value of each thread of a block, always in the same order. All threads get the sum.
template <typename Number>
DEVICE Number block_sum(Number value, Number* shared) {
  wait_for_block();
  shared[thread()] = value;
  ROLLED for (u32 half = kThreads / 2; half > 0; half /= 2) {
    wait_for_block();
    if (thread() < half) shared[thread()] += shared[thread() + half];
  }
  wait_for_block();
  return shared[0];
}

// Returns the sum of the values of the block's earlier threads.
template <typename Integer>
DEVICE Integer sum_of_earlier(Integer value, Integer* shared) {
  Integer sum = value;
  ROLLED for (u32 distance = 1; distance < kThreads; distance *= 2) {
    wait_for_block();
    shared[thread()] = sum;
    wait_for_block();
    if (thread() >= distance) sum += shared[thread() - distance];
  }
  return sum - value;
}
