// Reads what a program says when GPU memory cannot be allocated. The functions are pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// Represents an allocation of GPU memory that failed. What the text does not say is std::nullopt.
struct GpuMemoryError {
  // The library that reports the error. Each has its own remedies.
  enum class Source : std::uint8_t { pytorch, runtime, cuda, nccl, cublas };
  struct Other {
    pid_t pid = 0;
    std::uint64_t bytes = 0;

    friend bool operator==(const Other&, const Other&) = default;
  };

  Source source = Source::cuda;
  std::optional<int> device;                  // number of the GPU among those that the program sees
  std::optional<std::uint64_t> asked_bytes;   // size of the allocation
  std::optional<std::uint64_t> free_bytes;    // free memory of the GPU at that time
  std::optional<std::uint64_t> total_bytes;   // memory of the GPU
  std::optional<std::uint64_t> own_bytes;     // memory that the process itself uses
  std::optional<std::uint64_t> unused_bytes;  // memory that PyTorch has reserved but not allocated
  std::vector<Other> others;                  // other processes on the GPU, as PyTorch names them

  friend bool operator==(const GpuMemoryError&, const GpuMemoryError&) = default;
};

// Returns the last such error in a text, such as an exception's message or the end of a log. Returns std::nullopt if
// the text contains none.
std::optional<GpuMemoryError> find_gpu_memory_error(std::string_view text);

}  // namespace ddp::launcher
