// Represents the activity of this node's GPUs, as ddp_gpu_reader prints it, and selects the GPUs of a rank.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// Represents a process that computes on a GPU.
struct GpuHolder {
  pid_t pid = 0;
  std::optional<std::uint64_t> bytes;  // memory of the GPU that it holds; std::nullopt if unknown

  friend bool operator==(const GpuHolder&, const GpuHolder&) = default;
};

// Represents one GPU. A value is std::nullopt if it could not be read.
struct GpuCounters {
  std::string uuid;                          // for example "GPU-5f1c…"
  std::optional<int> busy_percent;           // percentage of the last second (or less) in which a kernel ran
  std::optional<std::uint64_t> moved_bytes;  // bytes over PCIe and NVLink since the driver was loaded
  std::vector<pid_t> processes;              // processes that are known to use it
  // These are all processes on the GPU, as the driver counts them. In a container, their pids are the node's, and
  // `processes` is empty.
  std::vector<GpuHolder> holders = {};
  bool has_node_pids = false;  // the pids of the holders are not those that this process sees

  friend bool operator==(const GpuCounters&, const GpuCounters&) = default;
};

// Converts GPUs to a line of ddp_gpu_reader, and back. The line is JSON, with the GPUs in the order of their PCI
// addresses. gpus_from_line() returns std::nullopt if the line is invalid.
std::string to_line(std::span<const GpuCounters> node_gpus);
std::optional<std::vector<GpuCounters>> gpus_from_line(std::string_view line);

// Represents the GPUs of a rank together.
struct GpuSample {
  int busy_percent = 0;                      // percentage of the busiest GPU
  std::optional<std::uint64_t> moved_bytes;  // std::nullopt if it could not be read for one of them

  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

// Returns a sample of the GPUs that one of `processes` uses. If no such GPU is known, all GPUs count that the rank sees
// by its CUDA_VISIBLE_DEVICES (std::nullopt means all of the node). Returns std::nullopt if something is unknown that
// may be a sign of life.
std::optional<GpuSample> gpus_of_rank(std::span<const GpuCounters> node_gpus, std::span<const pid_t> processes,
                                      const std::optional<std::string>& cuda_visible_devices);

// Says how much of its GPUs a rank uses, for the views of a job. A value is std::nullopt if it is unknown.
struct RankGpuUse {
  std::optional<double> share;  // of the last second in which a kernel ran on the busiest of its GPUs
  std::optional<std::uint64_t> memory_bytes;

  friend bool operator==(const RankGpuUse&, const RankGpuUse&) = default;
};

// Returns the use of the GPUs that one of `processes` uses. If no such GPU is known, the only GPU counts that the rank
// sees by its CUDA_VISIBLE_DEVICES. In a container the pids are unknown. There the memory of a GPU belongs to the rank
// if only one process holds any.
RankGpuUse gpu_use_of_rank(std::span<const GpuCounters> node_gpus, std::span<const pid_t> processes,
                           const std::optional<std::string>& cuda_visible_devices);

}  // namespace ddp::launcher
