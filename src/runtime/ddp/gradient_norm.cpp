#include "runtime/ddp/gradient_norm.h"

#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/reduction/reduction.h"

namespace ddp::internal {
namespace {

// The loop computes this many sums, which do not wait for each other.
constexpr std::size_t kLanes = 8;

template <typename T>
double sum_of_squares(const ConstBuffer& buffer) {
  const std::span<const T> values(static_cast<const T*>(buffer.data), buffer.count);
  using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const auto square = [](T value) {
    const auto number = static_cast<double>(static_cast<Number>(value));
    return number * number;
  };
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += square(values[i + lane]);
  }
  for (; i < values.size(); ++i) sums[0] += square(values[i]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// x - x is 0 for every finite x, and only for these. Without an early exit, the compiler vectorizes the loop.
template <typename T>
bool all_finite(const T* values, std::size_t count) {
  std::size_t odd = 0;
  for (std::size_t i = 0; i < count; ++i) odd += values[i] - values[i] == 0 ? 0 : 1;
  return odd == 0;
}

}  // namespace

bool is_finite(const ConstBuffer& buffer) {
  if (buffer.type == DataType::f64) return all_finite(static_cast<const double*>(buffer.data), buffer.count);
  std::array<float, 1024> block;
  for (std::size_t first = 0; first < buffer.count; first += block.size()) {
    const std::size_t count = std::min(block.size(), buffer.count - first);
    to_single(buffer.slice(first, count), block.data());
    if (!all_finite(block.data(), count)) return false;
  }
  return true;
}

double sum_of_squares(const ConstBuffer& buffer) {
  switch (buffer.type) {
    case DataType::f16:
      return sum_of_squares<Float16>(buffer);
    case DataType::bf16:
      return sum_of_squares<BFloat16>(buffer);
    case DataType::f32:
      return sum_of_squares<float>(buffer);
    case DataType::f64:
      return sum_of_squares<double>(buffer);
    default:
      throw Error(ErrorKind::invalid_argument,
                  "cannot compute the norm of elements of type " + std::string(to_string(buffer.type)));
  }
}

}  // namespace ddp::internal
