// Buffer is a non-owning view of numbers in host or GPU memory. ConstBuffer is a read-only view. Tensor is a Buffer
// with a name and a shape.
#pragma once

#include <ddp/data_type.h>
#include <ddp/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddp {

enum class DeviceType : std::uint8_t { cpu, cuda };

// Names host memory or one GPU. This is a value type.
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;  // for cuda, CUDA's number among the GPUs that this process sees

  friend bool operator==(const Device&, const Device&) = default;
};

// Accepts the C++ types that have a DataType.
template <typename T>
concept Element = requires {
  DataTypeOf<std::remove_const_t<T>>::value;
};

// This is a value type. The caller keeps ownership of the memory, which must live until the operation that uses it is
// done. A Buffer can be made from any array of the types in data_type.h: std::vector<float>, std::array<double, 3>,
// float[8], std::span<std::int64_t>.
struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;  // elements
  DataType type = DataType::f32;
  DeviceType device = DeviceType::cpu;

  Buffer() = default;
  Buffer(void* data_, std::size_t count_, DataType type_, DeviceType device_ = DeviceType::cpu)
      : data(data_), count(count_), type(type_), device(device_) {}
  template <Element T>
  Buffer(std::span<T> values) : Buffer(values.data(), values.size(), DataTypeOf<T>::value) {}
  template <Element T>
  Buffer(std::vector<T>& values) : Buffer(std::span<T>(values)) {}
  template <Element T, std::size_t N>
  Buffer(std::array<T, N>& values) : Buffer(std::span<T>(values)) {}
  template <Element T, std::size_t N>
  Buffer(T (&values)[N]) : Buffer(std::span<T>(values)) {}
  // Temporaries are rejected because their memory is freed before the operation is done.
  template <Element T>
  Buffer(const std::vector<T>&&) = delete;
  template <Element T, std::size_t N>
  Buffer(const std::array<T, N>&&) = delete;

  std::size_t bytes() const { return count * size_of(type); }

  // Returns the elements as T. Throws invalid_argument unless T is the buffer's type, and if it has no memory.
  template <typename T>
  std::span<T> as() const {
    if (type != DataTypeOf<T>::value) {
      throw Error(ErrorKind::invalid_argument, "a buffer of " + std::string(to_string(type)) + " was read as " +
                                                   std::string(to_string(DataTypeOf<T>::value)));
    }
    if (data == nullptr && count > 0) {
      throw Error(ErrorKind::invalid_argument, "a buffer of " + std::to_string(count) + " elements has no memory");
    }
    return {static_cast<T*>(data), count};
  }

  // Returns `slice_count` elements from `first` on.
  Buffer slice(std::size_t first, std::size_t slice_count) const {
    return {static_cast<std::byte*>(data) + first * size_of(type), slice_count, type, device};
  }
};

// Is a read-only Buffer, for the data that a rank contributes. It can also be made from a Buffer.
struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;  // elements
  DataType type = DataType::f32;
  DeviceType device = DeviceType::cpu;

  ConstBuffer() = default;
  ConstBuffer(const void* data_, std::size_t count_, DataType type_, DeviceType device_ = DeviceType::cpu)
      : data(data_), count(count_), type(type_), device(device_) {}
  ConstBuffer(const Buffer& buffer) : ConstBuffer(buffer.data, buffer.count, buffer.type, buffer.device) {}
  template <Element T>
  ConstBuffer(std::span<T> values)
      : ConstBuffer(values.data(), values.size(), DataTypeOf<std::remove_const_t<T>>::value) {}
  template <Element T>
  ConstBuffer(const std::vector<T>& values) : ConstBuffer(std::span<const T>(values)) {}
  template <Element T, std::size_t N>
  ConstBuffer(const std::array<T, N>& values) : ConstBuffer(std::span<const T>(values)) {}
  template <Element T, std::size_t N>
  ConstBuffer(const T (&values)[N]) : ConstBuffer(std::span<const T>(values)) {}
  // Temporaries are rejected because their memory is freed before the operation is done. Store the value in a variable
  // that lives as long.
  template <Element T>
  ConstBuffer(const std::vector<T>&&) = delete;
  template <Element T, std::size_t N>
  ConstBuffer(const std::array<T, N>&&) = delete;
  template <Element T, std::size_t N>
  ConstBuffer(const T (&&)[N]) = delete;

  std::size_t bytes() const { return count * size_of(type); }

  // Returns `slice_count` elements from `first` on.
  ConstBuffer slice(std::size_t first, std::size_t slice_count) const {
    return {static_cast<const std::byte*>(data) + first * size_of(type), slice_count, type, device};
  }
};

// Data parallelism and checkpoints work on tensors, for example `{"layer1.weight", weights, {128, 64}}`. The product of
// `shape` equals `data.count`. Elements are in row-major order.
struct Tensor {
  std::string name = {};
  Buffer data = {};
  std::vector<std::int64_t> shape = {};
};

// Describes a part of the tensor of this name and shape: its elements [first, first + data.count), in row-major order.
// A rank holds shards of a state that is divided among the ranks. A whole Tensor converts to a TensorShard.
struct TensorShard {
  std::string name;
  Buffer data;
  std::vector<std::int64_t> shape;  // shape of the whole tensor
  std::size_t first = 0;

  TensorShard() = default;
  TensorShard(std::string name_, Buffer data_, std::vector<std::int64_t> shape_, std::size_t first_)
      : name(std::move(name_)), data(data_), shape(std::move(shape_)), first(first_) {}
  TensorShard(const Tensor& whole) : TensorShard(whole.name, whole.data, whole.shape, 0) {}
};

}  // namespace ddp
