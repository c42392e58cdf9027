// Provides numbers of every DataType, written and read as double, and the expected results of reductions.
#pragma once

#include <ddp/buffer.h>
#include <ddp/memory.h>
#include <ddp/reduce_op.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

namespace ddp::test {

// Calls function(T{}) with the C++ type of `type`; a bool is passed as the byte that it is.
template <typename Function>
auto with_type(DataType type, Function&& function) {
  switch (type) {
    case DataType::f16:
      return function(Float16());
    case DataType::bf16:
      return function(BFloat16());
    case DataType::f32:
      return function(float());
    case DataType::f64:
      return function(double());
    case DataType::i8:
      return function(std::int8_t());
    case DataType::i16:
      return function(std::int16_t());
    case DataType::i32:
      return function(std::int32_t());
    case DataType::i64:
      return function(std::int64_t());
    default:
      return function(std::uint8_t());
  }
}

// Describes memory that the host does not access itself.
struct DeviceMemory {
  std::function<Memory(std::size_t bytes)> allocate;
  std::function<void(void* to, const void* from, std::size_t bytes)> copy;
};

// Holds memory for `count` elements, `offset` bytes away from an address that is aligned for vectors. With `device`,
// the elements are in device memory from the first buffer() on, and are copied back to be read.
class Values {
 public:
  Values(DataType type, std::size_t count, std::size_t offset = 0, const DeviceMemory* device = nullptr)
      : type_(type),
        count_(count),
        offset_(offset),
        bytes_(offset + count * size_of(type) + 1),
        device_(count > 0 ? device : nullptr) {}

  Buffer buffer() {
    if (device_ == nullptr) return {bytes_.data() + offset_, count_, type_};
    if (!on_device_) {
      if (memory_.buffer().data == nullptr) memory_ = device_->allocate(bytes_.size());
      device_->copy(memory_.buffer().data, bytes_.data(), bytes_.size());
      on_device_ = true;
    }
    return {static_cast<std::byte*>(memory_.buffer().data) + offset_, count_, type_, DeviceType::cuda};
  }
  std::size_t count() const { return count_; }
  double operator[](std::size_t i) const {
    if (on_device_) device_->copy(bytes_.data(), memory_.buffer().data, bytes_.size());
    on_device_ = false;
    return with_type(type_, [&](auto value) {
      std::memcpy(&value, at(i), sizeof value);
      if constexpr (sizeof value == 2 && !std::is_integral_v<decltype(value)>) {
        return static_cast<double>(static_cast<float>(value));
      } else {
        return static_cast<double>(value);
      }
    });
  }
  void set(std::size_t i, double number) {
    with_type(type_, [&](auto value) {
      using T = decltype(value);
      if constexpr (std::is_arithmetic_v<T>) {
        value = static_cast<T>(number);
      } else {
        value = T(static_cast<float>(number));
      }
      std::memcpy(bytes_.data() + offset_ + i * sizeof value, &value, sizeof value);
    });
  }

 private:
  const std::byte* at(std::size_t i) const { return bytes_.data() + offset_ + i * size_of(type_); }

  DataType type_;
  std::size_t count_;
  std::size_t offset_;
  mutable std::vector<std::byte> bytes_;
  const DeviceMemory* device_;
  mutable bool on_device_ = false;
  Memory memory_;
};

// Returns element `i` of `rank`: small whole numbers, whose sums and products every type can hold or wraps.
inline double value_at(DataType type, int rank, std::size_t i) {
  const auto number = static_cast<double>((static_cast<std::size_t>(rank) * 5 + i * 7 + i / 3) % 3);
  return type == DataType::boolean ? static_cast<double>(static_cast<int>(number) % 2) : number + 1;
}

// Returns the factor that a rank uses in premultiplied sums.
inline double premultiplier(int rank) {
  return 0.5 * (rank + 1);
}

// Reduces one value per rank in double precision. Integers wrap as the type does.
inline double reduced(DataType type, ReduceOp::Kind op, std::span<const double> values) {
  const bool any = op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bit_or;
  const auto integer = [](double value) { return static_cast<std::int64_t>(value); };
  double result = op == ReduceOp::average || op == ReduceOp::premultiplied_sum ? 0 : values[0];
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    const double value = values[rank];
    if (op == ReduceOp::average) result += value / static_cast<double>(values.size());
    if (op == ReduceOp::premultiplied_sum) result += value * premultiplier(static_cast<int>(rank));
    if (rank == 0) continue;
    if (type == DataType::boolean && op != ReduceOp::bit_xor) {
      result = any ? std::max(result, value) : std::min(result, value);
    } else if (op == ReduceOp::sum) {
      result += value;
    } else if (op == ReduceOp::product) {
      result *= value;
    } else if (op == ReduceOp::min) {
      result = std::min(result, value);
    } else if (op == ReduceOp::max) {
      result = std::max(result, value);
    } else if (op == ReduceOp::bit_and) {
      result = static_cast<double>(integer(result) & integer(value));
    } else if (op == ReduceOp::bit_or) {
      result = static_cast<double>(integer(result) | integer(value));
    } else if (op == ReduceOp::bit_xor) {
      result = static_cast<double>(integer(result) ^ integer(value));
    }
  }
  return with_type(type, [&](auto typed) {
    using T = decltype(typed);
    if constexpr (std::is_integral_v<T>) return static_cast<double>(static_cast<T>(integer(result)));
    return result;
  });
}

// Returns the relative difference from the reference that a result may have: each of the additions may round once.
inline double tolerance(DataType type, int ranks) {
  const double steps = ranks + 1;
  if (type == DataType::f16) return steps * 0x1p-11;
  if (type == DataType::bf16) return steps * 0x1p-8;
  if (type == DataType::f32) return steps * 0x1p-24;
  return type == DataType::f64 ? steps * 0x1p-53 : 0;
}

}  // namespace ddp::test
