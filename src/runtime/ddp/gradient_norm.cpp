#include "runtime/ddp/gradient_norm.h"

#include <ddp/error.h>

#include <array>
#include <numeric>

namespace ddp {
namespace {

// Sums that do not wait for each other.
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

}  // namespace

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
                  "there is no norm of elements of type " + std::string(to_string(buffer.type)));
  }
}

}  // namespace ddp
