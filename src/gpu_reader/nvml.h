// Nvml wraps the few functions of NVIDIA's management library (NVML, libnvidia-ml.so.1) that report the activity of
// GPUs. The library belongs to the driver. It is loaded at run time, and its calls may hang if a GPU is lost.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "launcher/run/process/gpu_counters.h"

namespace ddp::gpu_reader {

class Nvml {
 public:
  // Loads the library. Fails, with the reason, if there is no driver or it does not answer.
  static base::Result<Nvml> open();

  // Reads the counters of all GPUs that this process may see, in the order of their PCI addresses.
  std::vector<launcher::GpuCounters> read() const;

 private:
  struct State;
  explicit Nvml(std::shared_ptr<const State> state);

  std::shared_ptr<const State> state_;
};

}  // namespace ddp::gpu_reader
