#include "runtime/ddp/hooks/low_rank.h"

#include <algorithm>
#include <cmath>

namespace ddp::internal {

void multiply(const MatrixShape& shape, std::span<const float> m, std::span<const float> q, std::span<float> p) {
  std::fill(p.begin(), p.end(), 0.0F);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      const float value = m[i * shape.columns + j];
      for (std::size_t k = 0; k < shape.rank; ++k) p[i * shape.rank + k] += value * q[j * shape.rank + k];
    }
  }
}

void multiply_transposed(const MatrixShape& shape, std::span<const float> m, std::span<const float> p,
                         std::span<float> q) {
  std::fill(q.begin(), q.end(), 0.0F);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      const float value = m[i * shape.columns + j];
      for (std::size_t k = 0; k < shape.rank; ++k) q[j * shape.rank + k] += value * p[i * shape.rank + k];
    }
  }
}

void expand(const MatrixShape& shape, std::span<const float> p, std::span<const float> q, std::span<float> m) {
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < shape.columns; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < shape.rank; ++k) sum += p[i * shape.rank + k] * q[j * shape.rank + k];
      m[i * shape.columns + j] = sum;
    }
  }
}

void orthonormalise(std::size_t rows, std::size_t rank, std::span<float> p) {
  const auto at = [&](std::size_t i, std::size_t k) -> float& { return p[i * rank + k]; };
  const auto product = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < rows; ++i) sum += static_cast<double>(at(i, a)) * at(i, b);
    return sum;
  };
  for (std::size_t k = 0; k < rank; ++k) {
    const double before = std::sqrt(product(k, k));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t earlier = 0; earlier < k; ++earlier) {
        const auto share = static_cast<float>(product(k, earlier));
        for (std::size_t i = 0; i < rows; ++i) at(i, k) -= share * at(i, earlier);
      }
    }
    const double length = std::sqrt(product(k, k));
    // Only the rounding error of the products is left of a dependent column.
    const bool is_dependent = length <= 1e-6 * before;
    const auto inverse = static_cast<float>(is_dependent ? 0 : 1 / length);
    for (std::size_t i = 0; i < rows; ++i) at(i, k) = is_dependent ? 0 : at(i, k) * inverse;
  }
}

void replace_columns(const MatrixShape& shape, std::span<const float> fallback, std::span<float> q) {
  for (std::size_t k = 0; k < shape.rank; ++k) {
    bool is_zero = true;
    bool is_finite = true;
    for (std::size_t j = 0; j < shape.columns; ++j) {
      is_zero = is_zero && q[j * shape.rank + k] == 0;
      is_finite = is_finite && std::isfinite(q[j * shape.rank + k]);
    }
    if (!is_zero && is_finite) continue;
    for (std::size_t j = 0; j < shape.columns; ++j) q[j * shape.rank + k] = fallback[j * shape.rank + k];
  }
}

}  // namespace ddp::internal
