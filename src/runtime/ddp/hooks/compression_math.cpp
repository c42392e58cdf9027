#include "runtime/ddp/hooks/compression_math.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "base/check.h"
#include "runtime/backend/gpu_math.h"

namespace ddp::internal {
namespace {

// These constants are those of the kernels in low_rank.cuh and selection.cuh.
constexpr std::uint64_t kMostSelectingBlocks = GpuMath::kThreads;  // one block adds up their counts
constexpr std::uint64_t kMostMatrixBlocks = 1 << 16;
constexpr std::uint64_t kColumnsPerBlock = 32;
// This is the size of the kernels' Selection, rounded up. The counts of the blocks follow it.
constexpr std::size_t kSelectionBytes = 2304;

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

void orthonormalise_on_host(const MatrixShape& shape, std::span<float> p) {
  const auto at = [&](std::size_t i, std::size_t k) -> float& { return p[i * shape.rank + k]; };
  const auto product = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < shape.rows; ++i) sum += static_cast<double>(at(i, a)) * at(i, b);
    return sum;
  };
  for (std::size_t k = 0; k < shape.rank; ++k) {
    const double before = std::sqrt(product(k, k));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t earlier = 0; earlier < k; ++earlier) {
        const auto share = static_cast<float>(product(k, earlier));
        for (std::size_t i = 0; i < shape.rows; ++i) at(i, k) -= share * at(i, earlier);
      }
    }
    const double length = std::sqrt(product(k, k));
    // Only the rounding error of the products is left of a dependent column.
    const bool is_dependent = length <= 1e-6 * before;
    const auto inverse = static_cast<float>(is_dependent ? 0 : 1 / length);
    for (std::size_t i = 0; i < shape.rows; ++i) at(i, k) = is_dependent ? 0 : at(i, k) * inverse;
  }
}

}  // namespace

void CompressionMath::add(const ConstBuffer& from, double factor, const Buffer& to) const {
  if (gpu() != nullptr) return gpu()->add(from, factor, false, to, stream());
  const std::span<const float> added = floats(from);
  const std::span<float> sums = floats(to);
  const auto share = static_cast<float>(factor);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += added[i] * share;
}

void CompressionMath::correct(const ConstBuffer& gradient, double scale, const ConstBuffer& error,
                              const Buffer& to) const {
  convert(gradient, to, scale);
  if (gpu() != nullptr) return gpu()->add(error, 1, true, to, stream());
  const std::span<const float> errors = floats(error);
  const std::span<float> sums = floats(to);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += std::isfinite(errors[i]) ? errors[i] : 0;
}

// The kernels find the smallest magnitude that is taken by its digits in base 256, from the highest one. Then each
// block of a range of its own counts what it takes, so that it knows the places of its elements.
void CompressionMath::take_largest(const Buffer& values, const Buffer& indices, const Buffer& picked) const {
  const std::uint64_t count = values.count;
  const std::uint64_t taken = indices.count;
  DDP_CHECK(taken <= count && picked.count == taken, taken, count, picked.count);
  if (gpu() == nullptr) {
    const std::vector<std::uint32_t> order = largest(floats(values), taken);
    for (std::size_t k = 0; k < order.size(); ++k) {
      float& value = floats(values)[order[k]];
      indices.as<std::int32_t>()[k] = static_cast<std::int32_t>(order[k]);
      floats(picked)[k] = value;
      value = 0;
    }
    return;
  }
  if (taken == 0) return;
  const std::uint64_t blocks = GpuMath::blocks_for(count, GpuMath::kTile, kMostSelectingBlocks);
  std::byte* selection = gpu()->scratch(kSelectionBytes + blocks * 2 * sizeof(std::uint64_t), stream());
  std::byte* counts = selection + kSelectionBytes;
  gpu()->launch("select_begin", 1, stream(), selection, taken);
  for (const std::uint32_t shift : {24U, 16U, 8U, 0U}) {
    gpu()->launch("select_count", GpuMath::blocks_for(count), stream(), values.data, count, selection, shift);
    gpu()->launch("select_digit", 1, stream(), selection, shift);
  }
  gpu()->launch("select_count_blocks", blocks, stream(), values.data, count, selection, counts);
  gpu()->launch("select_offsets", 1, stream(), counts, static_cast<std::uint32_t>(blocks));
  gpu()->launch("select_take", blocks, stream(), values.data, count, selection, counts, indices.data, picked.data);
}

void CompressionMath::scatter_add(const ConstBuffer& indices, const ConstBuffer& values, double factor,
                                  const Buffer& to) const {
  DDP_CHECK(indices.count == values.count, indices.count, values.count);
  if (values.count == 0) return;
  if (gpu() != nullptr) {
    return gpu()->launch("scatter_add", GpuMath::blocks_for(values.count), stream(), indices.data, values.data,
                         std::uint64_t{values.count}, factor, to.data);
  }
  const auto* places = static_cast<const std::uint32_t*>(indices.data);
  const std::span<float> sums = floats(to);
  const auto share = static_cast<float>(factor);
  for (std::size_t k = 0; k < values.count; ++k) sums[places[k]] += floats(values)[k] * share;
}

void CompressionMath::multiply(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& q,
                               const Buffer& p) const {
  const auto [rows, columns, rank] = shape;
  if (p.count == 0) return;
  if (gpu() != nullptr) {
    return gpu()->launch("multiply", GpuMath::blocks_for(rows, 1, kMostMatrixBlocks), stream(), m.data, q.data, p.data,
                         std::uint64_t{rows}, std::uint64_t{columns}, std::uint64_t{rank});
  }
  const std::span<const float> matrix = floats(m);
  const std::span<const float> right = floats(q);
  const std::span<float> sums = floats(p);
  std::ranges::fill(sums, 0.0F);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const float value = matrix[i * columns + j];
      for (std::size_t k = 0; k < rank; ++k) sums[i * rank + k] += value * right[j * rank + k];
    }
  }
}

void CompressionMath::multiply_transposed(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& p,
                                          const Buffer& q) const {
  const auto [rows, columns, rank] = shape;
  if (q.count == 0) return;
  if (gpu() != nullptr) {
    return gpu()->launch("multiply_transposed", GpuMath::blocks_for(columns, kColumnsPerBlock, kMostMatrixBlocks),
                         stream(), m.data, p.data, q.data, std::uint64_t{rows}, std::uint64_t{columns},
                         std::uint64_t{rank});
  }
  const std::span<const float> matrix = floats(m);
  const std::span<const float> left = floats(p);
  const std::span<float> sums = floats(q);
  std::ranges::fill(sums, 0.0F);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const float value = matrix[i * columns + j];
      for (std::size_t k = 0; k < rank; ++k) sums[j * rank + k] += value * left[i * rank + k];
    }
  }
}

void CompressionMath::expand(const MatrixShape& shape, const ConstBuffer& p, const ConstBuffer& q,
                             const Buffer& m) const {
  const auto [rows, columns, rank] = shape;
  if (m.count == 0) return;
  if (gpu() != nullptr) {
    return gpu()->launch("expand", GpuMath::blocks_for(m.count, GpuMath::kThreads), stream(), p.data, q.data, m.data,
                         std::uint64_t{rows}, std::uint64_t{columns}, std::uint64_t{rank});
  }
  const std::span<const float> left = floats(p);
  const std::span<const float> right = floats(q);
  const std::span<float> matrix = floats(m);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < rank; ++k) sum += left[i * rank + k] * right[j * rank + k];
      matrix[i * columns + j] = sum;
    }
  }
}

void CompressionMath::orthonormalise(const MatrixShape& shape, const Buffer& p) const {
  if (p.count == 0) return;
  if (gpu() == nullptr) return orthonormalise_on_host(shape, floats(p));
  gpu()->launch("orthonormalise", 1, stream(), p.data, std::uint64_t{shape.rows}, std::uint64_t{shape.rank});
}

void CompressionMath::replace_columns(const MatrixShape& shape, const ConstBuffer& fallback, const Buffer& q) const {
  if (q.count == 0) return;
  if (gpu() != nullptr) {
    return gpu()->launch("replace_columns", GpuMath::blocks_for(shape.rank, 1, kMostMatrixBlocks), stream(),
                         fallback.data, q.data, std::uint64_t{shape.columns}, std::uint64_t{shape.rank});
  }
  const std::span<const float> drawn = floats(fallback);
  const std::span<float> values = floats(q);
  for (std::size_t k = 0; k < shape.rank; ++k) {
    bool is_zero = true;
    bool is_finite = true;
    for (std::size_t j = 0; j < shape.columns; ++j) {
      is_zero = is_zero && values[j * shape.rank + k] == 0;
      is_finite = is_finite && std::isfinite(values[j * shape.rank + k]);
    }
    if (!is_zero && is_finite) continue;
    for (std::size_t j = 0; j < shape.columns; ++j) values[j * shape.rank + k] = drawn[j * shape.rank + k];
  }
}

}  // namespace ddp::internal
