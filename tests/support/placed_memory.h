// Keeps a test's tensors in host memory or in GPU memory, so that one test covers both.
#pragma once

#include <ddp/process_group.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/backends_under_test.h"
#include "support/gpu_libraries.h"

namespace ddp::test {

using namespace internal;

struct MemoryUnderTest {
  std::string name;
  DeviceType device = DeviceType::cpu;
  BackendFactory make;

  // Returns those of the numbers of ranks that a test of this memory may use.
  std::vector<int> ranks(std::vector<int> counts) const {
    return device == DeviceType::cuda ? gpu_rank_counts(std::move(counts)) : counts;
  }
};

inline MemoryUnderTest host_memory() {
  return {"host memory", DeviceType::cpu, make_cpu_backend};
}
inline MemoryUnderTest gpu_memory_under_test() {
  return {"GPU memory", DeviceType::cuda, nccl_backend().make};
}
inline std::vector<MemoryUnderTest> memories_under_test() {
  return {host_memory(), gpu_memory_under_test()};
}

// Returns the memories for tests whose numbers of ranks cannot change. A real GPU is not among them, because each rank
// needs one.
inline std::vector<MemoryUnderTest> memories_in_software() {
  return on_real_gpu() ? std::vector{host_memory()} : memories_under_test();
}

// Allocates, writes and reads buffers of one rank. On a GPU, it writes in the order of a stream and does not wait.
class PlacedMemory {
 public:
  PlacedMemory(ProcessGroup& group, DeviceType device) : group_(group), device_(device) {
    if (device == DeviceType::cuda) stream_ = std::make_unique<ProgramStream>(group);
  }
  // The group may not know the stream, whose copies use the memory.
  ~PlacedMemory() {
    if (!stream_) return;
    try {
      CudaEvents(stream_->cuda()).finish(stream_->handle(), std::chrono::seconds(1));
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the GPU is lost
    }
  }
  PlacedMemory(const PlacedMemory&) = delete;
  PlacedMemory& operator=(const PlacedMemory&) = delete;

  // Returns the stream on which the program computes, or no stream in host memory.
  Stream stream() const { return stream_ ? stream_->stream() : Stream(); }
  DeviceType device() const { return device_; }

  template <typename T>
  Buffer make(const std::vector<T>& values) {
    const Memory& memory = owned_.emplace_back(group_.allocate(values.size(), DataTypeOf<T>::value, device_));
    write(memory.buffer(), values);
    return memory.buffer();
  }
  template <typename T>
  void write(const Buffer& buffer, const std::vector<T>& values) {
    require(buffer.count == values.size() && buffer.type == DataTypeOf<T>::value, "another count or type is written");
    if (values.empty()) return;
    if (!stream_) {
      std::memcpy(buffer.data, values.data(), buffer.bytes());
      return;
    }
    const CudaStatus status = stream_->cuda().copy_async(buffer.data, values.data(), buffer.bytes(), stream_->handle());
    require_cuda(stream_->cuda(), status, "copy");
  }
  // Sets element k to value_of(k), rounded to the buffer's type.
  template <typename Function>
  void set(const Buffer& buffer, const Function& value_of) {
    with_type(buffer.type, [&](auto kind) {
      using T = decltype(kind);
      using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
      std::vector<T> values(buffer.count);
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = T(static_cast<Number>(value_of(k)));
      write(buffer, values);
    });
  }
  void fill(const Buffer& buffer, double value) {
    set(buffer, [value](std::size_t) { return value; });
  }
  // Adds this value to all elements.
  void add(const Buffer& buffer, double value) {
    const std::vector<double> before = numbers(buffer);
    set(buffer, [&](std::size_t k) { return before[k] + value; });
  }
  // Reads the buffer when the work on the stream is done.
  template <typename T>
  std::vector<T> read(const Buffer& buffer) {
    require(buffer.type == DataTypeOf<T>::value, "another type is read");
    std::vector<T> values(buffer.count);
    group_.copy(values, buffer, stream());
    return values;
  }
  std::vector<double> numbers(const Buffer& buffer) {
    return with_type(buffer.type, [&](auto kind) {
      using T = decltype(kind);
      using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
      std::vector<double> result;
      for (const T value : read<T>(buffer)) result.push_back(static_cast<double>(static_cast<Number>(value)));
      return result;
    });
  }
  double first(const Buffer& buffer) { return numbers(buffer.slice(0, 1))[0]; }
  std::string bytes(const Buffer& buffer) {
    std::string result(buffer.bytes(), '\0');
    group_.copy({result.data(), result.size(), DataType::u8}, buffer, stream());
    return result;
  }

 private:
  ProcessGroup& group_;
  const DeviceType device_;
  std::unique_ptr<ProgramStream> stream_;  // null in host memory
  std::deque<Memory> owned_;
};

}  // namespace ddp::test
