// ddp_gpu_reader: says once a second what the GPUs of this node have done, as a line each time
// (launcher/process/gpu_counters.h), until its standard output is closed. A program of its own, since a call of the
// driver's library may hang for ever.
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
