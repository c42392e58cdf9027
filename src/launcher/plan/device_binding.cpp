#include "launcher/plan/device_binding.h"

#include "base/text.h"

namespace ddp::launcher {

std::vector<std::string> visible_gpus(const std::optional<std::string>& cuda_visible_devices, int gpu_count) {
  std::vector<std::string> gpus;
  if (!cuda_visible_devices) {
    for (int i = 0; i < gpu_count; ++i) gpus.push_back(std::to_string(i));
    return gpus;
  }
  if (gpu_count == 0) return gpus;
  for (const std::string& name : base::split(*cuda_visible_devices, ',')) {
    if (name.empty()) break;
    const bool is_name = name.starts_with("GPU-") || name.starts_with("MIG-");
    if (!is_name && !base::parse_integer(name, 0, gpu_count - 1)) break;
    gpus.push_back(name);
  }
  return gpus;
}

base::Result<std::vector<std::optional<std::string>>> bind_devices(const DeviceBindingInput& input) {
  using Bindings = std::vector<std::optional<std::string>>;
  const auto workers = static_cast<std::size_t>(input.workers);
  if (input.gpus.empty()) return Bindings(workers);
  if (workers > input.gpus.size() && !input.oversubscribe) {
    const std::string list = base::join(input.gpus, ",");
    return base::Failure{
        base::counted(input.workers, "worker") + " but " + base::counted(std::ssize(input.gpus), "GPU") + " (" + list +
        "). Use --nproc-per-node=" + std::to_string(input.gpus.size()) + ", or share GPUs with --oversubscribe."};
  }
  if (!input.own_only) return Bindings(workers, base::join(input.gpus, ","));
  Bindings bindings;
  for (std::size_t i = 0; i < workers; ++i) bindings.emplace_back(input.gpus[i % input.gpus.size()]);
  return bindings;
}

}  // namespace ddp::launcher
