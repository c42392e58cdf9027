#include "runtime/backend/gloo/reduction.h"

#include <algorithm>

#include "base/check.h"

namespace ddp {
namespace {

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Product {
  template <typename T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};

// Integers wrap around, as they do in NCCL and PyTorch: computed unsigned, where that is defined.
template <typename T, typename Operation>
T combine(T a, T b) {
  if constexpr (std::is_integral_v<T> && (std::is_same_v<Operation, Sum> || std::is_same_v<Operation, Product>)) {
    using Unsigned = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, std::make_unsigned_t<T>>;
    return static_cast<T>(Operation::apply(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  } else {
    return Operation::apply(a, b);
  }
}

template <typename T, typename Operation>
void reduce(void* out, const void* a, const void* b, std::size_t count) {
  auto* result = static_cast<T*>(out);
  const auto* left = static_cast<const T*>(a);
  const auto* right = static_cast<const T*>(b);
  for (std::size_t i = 0; i < count; ++i) result[i] = combine<T, Operation>(left[i], right[i]);
}

template <typename T>
ReduceFunction function_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return &reduce<T, Sum>;
    case ReduceOp::product:
      return &reduce<T, Product>;
    case ReduceOp::min:
      return &reduce<T, Min>;
    case ReduceOp::max:
      return &reduce<T, Max>;
  }
  DDP_CHECK(false, static_cast<int>(op));
}

template <typename T>
void scale_typed(const Buffer& buffer, double factor) {
  for (T& value : buffer.as<T>()) value *= static_cast<T>(factor);
}

}  // namespace

ReduceFunction reduce_function(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::f32:
      return function_for<float>(op);
    case DataType::f64:
      return function_for<double>(op);
    case DataType::i32:
      return function_for<std::int32_t>(op);
    case DataType::i64:
      return function_for<std::int64_t>(op);
    case DataType::u8:
      return function_for<std::uint8_t>(op);
  }
  DDP_CHECK(false, static_cast<int>(type));
}

void scale(const Buffer& buffer, double factor) {
  if (buffer.type == DataType::f32) return scale_typed<float>(buffer, factor);
  DDP_CHECK(buffer.type == DataType::f64, to_string(buffer.type));
  scale_typed<double>(buffer, factor);
}

}  // namespace ddp
