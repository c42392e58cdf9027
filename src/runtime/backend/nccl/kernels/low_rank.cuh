// These kernels compute low-rank approximations, as CompressionMath does in host memory.
#pragma once

#include "runtime/backend/nccl/kernels/support.cuh"

// Several columns of a factor are computed at once, so that the large matrix is read less often.
constexpr u32 kColumns = 4;

// Computes P = M Q. A block computes a row.
KERNEL ddp_multiply(const f32* m, const f32* q, f32* p, u64 rows, u64 columns, u64 rank) {
  SHARED static f32 shared[kThreads];
  ROLLED for (u64 i = block(); i < rows; i += blocks()) {
    ROLLED for (u64 first = 0; first < rank; first += kColumns) {
      f32 sums[kColumns] = {};
      ROLLED for (u64 j = thread(); j < columns; j += kThreads) {
        const f32 value = m[i * columns + j];
        UNROLLED for (u32 k = 0; k < kColumns; ++k) {
          if (first + k < rank) sums[k] += value * q[j * rank + first + k];
        }
      }
      UNROLLED for (u32 k = 0; k < kColumns; ++k) {
        if (first + k >= rank) break;
        const f32 sum = block_sum(sums[k], shared);
        if (thread() == 0) p[i * rank + first + k] = sum;
      }
    }
  }
}

// Computes Q = transpose(M) P. A block computes a tile of kWidth columns of M. A thread reads every eighth row of one
// column, so that neighbouring threads read neighbouring elements.
KERNEL ddp_multiply_transposed(const f32* m, const f32* p, f32* q, u64 rows, u64 columns, u64 rank) {
  constexpr u32 kWidth = 32;
  constexpr u32 kLanes = kThreads / kWidth;
  SHARED static f32 shared[kThreads];
  const u32 lane = thread() / kWidth;
  ROLLED for (u64 tile = static_cast<u64>(block()) * kWidth; tile < columns; tile += u64{blocks()} * kWidth) {
    const u64 j = tile + thread() % kWidth;
    ROLLED for (u64 first = 0; first < rank; first += kColumns) {
      f32 sums[kColumns] = {};
      ROLLED for (u64 i = lane; i < rows && j < columns; i += kLanes) {
        const f32 value = m[i * columns + j];
        UNROLLED for (u32 k = 0; k < kColumns; ++k) {
          if (first + k < rank) sums[k] += value * p[i * rank + first + k];
        }
      }
      UNROLLED for (u32 k = 0; k < kColumns; ++k) {
        wait_for_block();
        shared[thread()] = sums[k];
        wait_for_block();
        if (lane != 0 || j >= columns || first + k >= rank) continue;
        f32 sum = 0;
        ROLLED for (u32 other = 0; other < kLanes; ++other) sum += shared[other * kWidth + thread()];
        q[j * rank + first + k] = sum;
      }
    }
  }
}

// Computes M = P transpose(Q).
KERNEL ddp_expand(const f32* p, const f32* q, f32* m, u64 rows, u64 columns, u64 rank) {
  ROLLED for (u64 at = thread_of_all(); at < rows * columns; at += threads_of_all()) {
    const f32* left = p + at / columns * rank;
    const f32* right = q + at % columns * rank;
    f32 sum = 0;
    ROLLED for (u64 k = 0; k < rank; ++k) sum += left[k] * right[k];
    m[at] = sum;
  }
}

DEVICE f64 product_of_columns(const f32* p, u64 rows, u64 rank, u64 a, u64 b, f64* shared) {
  f64 sum = 0;
  ROLLED for (u64 i = thread(); i < rows; i += kThreads) {
    sum += static_cast<f64>(p[i * rank + a]) * static_cast<f64>(p[i * rank + b]);
  }
  return block_sum(sum, shared);
}

// Runs in one block. A thread reads and writes the same rows throughout.
KERNEL ddp_orthonormalise(f32* p, u64 rows, u64 rank) {
  SHARED static f64 shared[kThreads];
  ROLLED for (u64 k = 0; k < rank; ++k) {
    const f64 before = square_root(product_of_columns(p, rows, rank, k, k, shared));
    ROLLED for (int pass = 0; pass < 2; ++pass) {
      ROLLED for (u64 earlier = 0; earlier < k; ++earlier) {
        const auto share = static_cast<f32>(product_of_columns(p, rows, rank, k, earlier, shared));
        ROLLED for (u64 i = thread(); i < rows; i += kThreads) p[i * rank + k] -= share * p[i * rank + earlier];
      }
    }
    const f64 length = square_root(product_of_columns(p, rows, rank, k, k, shared));
    // Only the rounding error of the products is left of a dependent column.
    const bool is_dependent = length <= 1e-6 * before;
    const auto inverse = static_cast<f32>(is_dependent ? 0 : 1 / length);
    ROLLED for (u64 i = thread(); i < rows; i += kThreads) {
      f32& value = p[i * rank + k];
      value = is_dependent ? 0 : value * inverse;
    }
  }
}

// Copies a column of `fallback` to Q if all elements of that column of Q are 0, or one is not finite. A block handles a
// column.
KERNEL ddp_replace_columns(const f32* fallback, f32* q, u64 columns, u64 rank) {
  SHARED static u32 shared[kThreads];
  ROLLED for (u64 k = block(); k < rank; k += blocks()) {
    u32 infinite = 0;
    u32 nonzero = 0;
    ROLLED for (u64 j = thread(); j < columns; j += kThreads) {
      const f32 value = q[j * rank + k];
      infinite += is_finite(value) ? 0 : 1;
      nonzero += value == 0 ? 0 : 1;
    }
    infinite = block_sum(infinite, shared);
    nonzero = block_sum(nonzero, shared);
    if (infinite == 0 && nonzero != 0) continue;
    ROLLED for (u64 j = thread(); j < columns; j += kThreads) q[j * rank + k] = fallback[j * rank + k];
  }
}
