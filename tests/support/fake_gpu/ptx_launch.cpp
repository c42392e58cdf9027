// Implements the driver's functions for modules and kernels.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/fake_gpu/fake_gpu.h"
#include "support/fake_gpu/ptx_module.h"

using namespace fake_gpu;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0;

}  // namespace

// The runtime never unloads a module, so it is never destroyed. As with CUDA's lazy loading, loading a module or a
// kernel waits for the device.
EXPORT int cuModuleLoadData(void** module, const void* image) {
  if (const int error = context_error(); error != kSuccess) return error;
  drain_device(current_device());
  try {
    static std::mutex mutex;
    static auto* modules = new std::vector<std::unique_ptr<PtxModule>>;
    auto loaded = std::make_unique<PtxModule>(parse_ptx(static_cast<const char*>(image)));
    const std::lock_guard lock(mutex);
    *module = modules->emplace_back(std::move(loaded)).get();
    return kSuccess;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "fake_gpu: the PTX text is refused: %s\n", error.what());
    return kInvalidPtx;
  }
}
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto& kernels = static_cast<PtxModule*>(module)->kernels;
  const auto found = kernels.find(std::string_view(name));
  if (found == kernels.end()) return kNotFound;
  drain_device(current_device());
  *function = &found->second;
  return kSuccess;
}
EXPORT int cuLaunchKernel(void* function, unsigned blocks, unsigned blocks_y, unsigned blocks_z, unsigned threads,
                          unsigned threads_y, unsigned threads_z, unsigned, void* stream, void** parameters,
                          void** extra) {
  constexpr unsigned kMostThreads = 1024;
  if (const int error = stream_error(stream); error != kSuccess) return error;
  const bool has_shape = blocks_y == 1 && blocks_z == 1 && threads_y == 1 && threads_z == 1;
  if (function == nullptr || blocks == 0 || threads == 0 || threads > kMostThreads || !has_shape || extra != nullptr) {
    return kInvalidValue;
  }
  PtxLaunch launch;
  launch.kernel = static_cast<const PtxKernel*>(function);
  launch.blocks = blocks;
  launch.threads = threads;
  static std::atomic<unsigned> launches = 0;
  launch.number = launches++;
  launch.parameters.resize(launch.kernel->parameter_bytes);
  for (std::size_t i = 0; i < launch.kernel->parameters.size(); ++i) {
    const PtxParameter& parameter = launch.kernel->parameters[i];
    if (parameters == nullptr || parameters[i] == nullptr) return kInvalidValue;
    std::memcpy(launch.parameters.data() + parameter.offset, parameters[i], parameter.bytes);
  }
  stream_of(stream).push([launch = std::move(launch), device = current_device()]() mutable {
    launch.memory = reachable_blocks(device);
    if (const int error = run_ptx(launch); error != kSuccess) break_device(device, error);
  });
  return kSuccess;
}
