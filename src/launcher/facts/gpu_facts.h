// The NVIDIA GPUs of this machine, counted without any driver library: from what the kernel shows in files. A driver
// call may block for ever when a GPU is lost; reading these files does not.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

struct GpuFacts {
  int index = 0;                 // in the order of PCI addresses, as CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID
  std::string uuid;              // "GPU-5f1c…"; empty where the driver does not show it
  std::string pci_address;       // "0000:17:00.0"; empty as above
  std::optional<int> numa_node;  // nothing where the kernel does not know, or has only one

  friend bool operator==(const GpuFacts&, const GpuFacts&) = default;
};

// Reads dev/nvidia<N>, proc/driver/nvidia/gpus/<address>/information and sys/bus/pci/devices/<address>/numa_node below
// `root` ("/" but for tests). A container may show all GPUs of the machine in /proc but only its own device files: then
// those with a device file count. Without /proc the device files alone are counted.
std::vector<GpuFacts> find_gpus(const std::string& root);

}  // namespace ddp::launcher
