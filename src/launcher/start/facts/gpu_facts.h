// Finds the NVIDIA GPUs of this node without any driver library, in files that the kernel provides. A driver call may
// block forever when a GPU is lost; reading these files does not.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

struct GpuFacts {
  int index = 0;                            // number by PCI address, as CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID
  std::string uuid;                         // "GPU-5f1c…"; empty if the driver does not show it
  std::string pci_address;                  // "0000:17:00.0"; empty if the driver does not show it
  std::optional<int> numa_node;             // std::nullopt if the kernel does not know it, or has only one
  std::optional<int> minor = std::nullopt;  // N of /dev/nvidia<N>; std::nullopt if the driver does not show it

  friend bool operator==(const GpuFacts&, const GpuFacts&) = default;
};

// Reads dev/nvidia<N>, proc/driver/nvidia/gpus/<address>/information and sys/bus/pci/devices/<address>/numa_node below
// `root`, which is "/" except in tests. A container may show all GPUs of the node in /proc but only its own device
// files. In that case, only GPUs with a device file count. Without /proc, the device files alone are counted. GPUs that
// the driver excludes do not count, and neither do those whose device file `is_denied`. A scheduler such as Slurm
// (ConstrainDevices) lets the files exist, but denies some of them to the job. CUDA counts only the others.
using IsDenied = std::function<bool(const std::string& device_file)>;
std::vector<GpuFacts> find_gpus(const std::string& root, const IsDenied& is_denied);
std::vector<GpuFacts> find_gpus(const std::string& root);  // asks is_denied_by_cgroup()

// Returns whether a control group denies the device to this process. The kernel answers without opening the device.
bool is_denied_by_cgroup(const std::string& device_file);

// Returns whether there may be GPUs that find_gpus() has not found. WSL2 shows all GPUs through /dev/dxg alone, so only
// the driver's library can count them.
bool has_uncounted_gpus(const std::string& root, const std::vector<GpuFacts>& found);

}  // namespace ddp::launcher
