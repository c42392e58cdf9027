// ddp_gpu_reader prints the counters of this node's GPUs once per second, as one line each time
// (launcher/run/process/gpu_counters.h). It runs until its standard output is closed. It is a separate program, because
// a call of the driver's library may hang forever.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "gpu_reader/nvml.h"

int main() {
  const auto nvml = ddp::gpu_reader::Nvml::open();
  if (!nvml) {
    std::cerr << "ddp_gpu_reader: " << nvml.error().message << '\n';
    return EXIT_FAILURE;
  }
  while (std::cout << ddp::launcher::to_line(nvml.value().read()) << std::flush) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}
