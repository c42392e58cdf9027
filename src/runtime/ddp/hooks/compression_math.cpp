#include "runtime/ddp/hooks/compression_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "runtime/backend/gpu_math.h"
#include "runtime/ddp/hooks/low_rank.h"

namespace ddp::internal {
namespace {

std::span<const float> floats(const ConstBuffer& buffer) {
  return {static_cast<const float*>(buffer.data), buffer.count};
}
std::span<float> floats(const Buffer& buffer) {
  return buffer.as<float>();
}

// A NaN counts as infinite, so that it is seen.
float magnitude(float value) {
  return std::isnan(value) ? std::numeric_limits<float>::infinity() : std::abs(value);
}

std::vector<std::uint32_t> largest(std::span<const float> values, std::size_t kept) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto is_larger = [&](std::uint32_t a, std::uint32_t b) {
    const float one = magnitude(values[a]);
    const float other = magnitude(values[b]);
    return one != other ? one > other : a < b;
  };
  if (kept < order.size()) {
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(), is_larger);
  }
  order.resize(kept);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

void CompressionMath::add(const ConstBuffer& from, double factor, bool only_finite, const Buffer& to) const {
  if (gpu() != nullptr) return gpu()->add(from, factor, only_finite, to, stream());
  const std::span<const float> added = floats(from);
  const std::span<float> sums = floats(to);
  const auto share = static_cast<float>(factor);
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] += only_finite && !std::isfinite(added[i]) ? 0 : added[i] * share;
}

void CompressionMath::take_largest(const Buffer& values, const Buffer& indices, const Buffer& picked) const {
  if (gpu() != nullptr) return gpu()->take_largest(values, indices, picked, stream());
  const std::vector<std::uint32_t> order = largest(floats(values), indices.count);
  for (std::size_t k = 0; k < order.size(); ++k) {
    float& value = floats(values)[order[k]];
    indices.as<std::int32_t>()[k] = static_cast<std::int32_t>(order[k]);
    floats(picked)[k] = value;
    value = 0;
  }
}

void CompressionMath::scatter_add(const ConstBuffer& indices, const ConstBuffer& values, double factor,
                                  const Buffer& to) const {
  if (gpu() != nullptr) return gpu()->scatter_add(indices, values, factor, to, stream());
  const auto* places = static_cast<const std::uint32_t*>(indices.data);
  const std::span<float> sums = floats(to);
  const auto share = static_cast<float>(factor);
  for (std::size_t k = 0; k < values.count; ++k) sums[places[k]] += floats(values)[k] * share;
}

void CompressionMath::multiply(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& q,
                               const Buffer& p) const {
  if (gpu() != nullptr) return gpu()->multiply(shape, m, q, p, stream());
  internal::multiply(shape, floats(m), floats(q), floats(p));
}

void CompressionMath::multiply_transposed(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& p,
                                          const Buffer& q) const {
  if (gpu() != nullptr) return gpu()->multiply_transposed(shape, m, p, q, stream());
  internal::multiply_transposed(shape, floats(m), floats(p), floats(q));
}

void CompressionMath::expand(const MatrixShape& shape, const ConstBuffer& p, const ConstBuffer& q,
                             const Buffer& m) const {
  if (gpu() != nullptr) return gpu()->expand(shape, p, q, m, stream());
  internal::expand(shape, floats(p), floats(q), floats(m));
}

void CompressionMath::orthonormalise(const MatrixShape& shape, const Buffer& p) const {
  if (gpu() != nullptr) return gpu()->orthonormalise(shape, p, stream());
  internal::orthonormalise(shape.rows, shape.rank, floats(p));
}

void CompressionMath::replace_columns(const MatrixShape& shape, const ConstBuffer& fallback, const Buffer& q) const {
  if (gpu() != nullptr) return gpu()->replace_columns(shape, fallback, q, stream());
  internal::replace_columns(shape, floats(fallback), floats(q));
}

}  // namespace ddp::internal
