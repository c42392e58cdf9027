// Buffer: a non-owning view of numbers in host or GPU memory. Tensor: a Buffer with a name and a shape.
#pragma once

#include <ddp/error.h>
#include <ddp/version.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp {

enum class DataType : std::uint8_t { f32, f64, i32, i64, u8 };
enum class DeviceType : std::uint8_t { cpu, cuda };

// Bytes of one element.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::f32:
    case DataType::i32:
      return 4;
    case DataType::f64:
    case DataType::i64:
      return 8;
    case DataType::u8:
      return 1;
  }
  return 0;
}

// "f32" and so on.
DDP_EXPORT std::string_view to_string(DataType type);

template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::f32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::f64;
};
template <>
struct DataTypeOf<std::int32_t> {
  static constexpr DataType value = DataType::i32;
};
template <>
struct DataTypeOf<std::int64_t> {
  static constexpr DataType value = DataType::i64;
};
template <>
struct DataTypeOf<std::uint8_t> {
  static constexpr DataType value = DataType::u8;
};

// A value. The memory stays the caller's and must live until the operation that uses it is done. Made from any
// array of the types above: std::vector<float>, std::array<double, 3>, float[8], std::span<std::int64_t>.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;  // elements
  DataType type = DataType::f32;
  DeviceType device = DeviceType::cpu;

  Buffer() = default;
  Buffer(void* data_, std::size_t count_, DataType type_, DeviceType device_ = DeviceType::cpu)
      : data(data_), count(count_), type(type_), device(device_) {}
  template <typename T>
  Buffer(std::span<T> values) : Buffer(values.data(), values.size(), DataTypeOf<T>::value) {}
  template <typename T>
  Buffer(std::vector<T>& values) : Buffer(std::span<T>(values)) {}
  template <typename T, std::size_t N>
  Buffer(std::array<T, N>& values) : Buffer(std::span<T>(values)) {}
  template <typename T, std::size_t N>
  Buffer(T (&values)[N]) : Buffer(std::span<T>(values)) {}

  std::size_t bytes() const { return count * size_of(type); }

  // The elements as T; throws invalid_argument unless T is the buffer's type.
  template <typename T>
  std::span<T> as() const {
    if (type != DataTypeOf<T>::value) {
      throw Error(ErrorKind::invalid_argument, "a buffer of " + std::string(to_string(type)) + " was read as " +
                                                   std::string(to_string(DataTypeOf<T>::value)));
    }
    return {static_cast<T*>(data), count};
  }

  // `count` elements from `first` on.
  Buffer slice(std::size_t first, std::size_t slice_count) const {
    return {static_cast<std::byte*>(data) + first * size_of(type), slice_count, type, device};
  }
};

// What data parallelism and checkpoints work on: `{"layer1.weight", weights, {128, 64}}`. The product of `shape` is
// `data.count`; row-major order.
struct Tensor {
  std::string name;
  Buffer data;
  std::vector<std::int64_t> shape;
};

}  // namespace ddp
