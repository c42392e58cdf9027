// The few functions of NVIDIA's management library (NVML, libnvidia-ml.so.1) that tell what GPUs do. The library
// belongs to the driver: it is looked up at run time, and its calls may hang if a GPU is lost.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "launcher/process/gpu_counters.h"

namespace ddp::gpu_reader {

class Nvml {
 public:
  // Fails, with the reason, if there is no driver or it does not answer.
  static base::Result<Nvml> open();

  // All GPUs that this process may see, in the order of their PCI addresses.
  std::vector<launcher::GpuCounters> read() const;

 private:
  struct State;
  explicit Nvml(std::shared_ptr<const State> state);

  std::shared_ptr<const State> state_;
};

}  // namespace ddp::gpu_reader
