// These functions compute low-rank approximations: M ~ P transpose(Q). They are pure and use row-major matrices.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/reduction/matrix_shape.h"

namespace ddp::internal {

// Computes P [rows, rank] = M [rows, columns] Q [columns, rank].
void multiply(const MatrixShape& shape, std::span<const float> m, std::span<const float> q, std::span<float> p);

// Computes Q [columns, rank] = transpose(M) P.
void multiply_transposed(const MatrixShape& shape, std::span<const float> m, std::span<const float> p,
                         std::span<float> q);

// Computes M [rows, columns] = P transpose(Q).
void expand(const MatrixShape& shape, std::span<const float> p, std::span<const float> q, std::span<float> m);

// Makes the columns of P [rows, rank] orthogonal and of length 1 by the modified Gram-Schmidt process, twice for
// accuracy. A column that depends on those before it, or is 0, becomes 0.
void orthonormalise(std::size_t rows, std::size_t rank, std::span<float> p);

// Copies a column of `fallback` to Q [columns, rank] if all elements of that column of Q are 0, or one is not finite.
void replace_columns(const MatrixShape& shape, std::span<const float> fallback, std::span<float> q);

}  // namespace ddp::internal
