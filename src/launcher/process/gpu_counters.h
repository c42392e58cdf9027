// What the GPUs of this node have done, as ddp_gpu_reader tells it, and which of them count for a rank.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// One GPU. Nothing: that could not be read.
struct GpuCounters {
  std::string uuid;                          // "GPU-5f1c…"
  std::optional<int> busy_percent;           // of the last second or less in which a kernel ran
  std::optional<std::uint64_t> moved_bytes;  // over PCIe and NVLink, since the driver was loaded
  std::vector<pid_t> processes;              // that use it, as far as that is known

  friend bool operator==(const GpuCounters&, const GpuCounters&) = default;
};

// A line of ddp_gpu_reader: JSON, the GPUs in the order of their PCI addresses. Nothing if it is no such line.
std::string to_line(std::span<const GpuCounters> node_gpus);
std::optional<std::vector<GpuCounters>> gpus_from_line(std::string_view line);

// The GPUs of a rank together.
struct GpuSample {
  int busy_percent = 0;                      // of the busiest one
  std::optional<std::uint64_t> moved_bytes;  // nothing: of one of them it could not be read

  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};

// Of the GPUs that one of `processes` uses; where none is known to, of all that the rank sees by its
// CUDA_VISIBLE_DEVICES (nothing: all of the node). Nothing if something is not known that may be a sign of life.
std::optional<GpuSample> gpus_of_rank(std::span<const GpuCounters> node_gpus, std::span<const pid_t> processes,
                                      const std::optional<std::string>& cuda_visible_devices);

}  // namespace ddp::launcher
