#include "launcher/run/process/gpu_counters.h"

#include <algorithm>
#include <exception>

#include "launcher/start/plan/device_binding.h"
#include "wire/json_fields.h"

namespace ddp::launcher {

BOOST_DESCRIBE_STRUCT(GpuHolder, (), (pid, bytes))
BOOST_DESCRIBE_STRUCT(GpuCounters, (), (uuid, busy_percent, moved_bytes, processes, holders, has_node_pids))

namespace {

std::vector<const GpuCounters*> used_by(std::span<const pid_t> processes, std::span<const GpuCounters> node_gpus) {
  std::vector<const GpuCounters*> used;
  for (const GpuCounters& gpu : node_gpus) {
    const bool is_used = std::ranges::any_of(
        gpu.processes, [&](pid_t pid) { return std::ranges::find(processes, pid) != processes.end(); });
    if (is_used) used.push_back(&gpu);
  }
  return used;
}

// Returns the GPUs that one of `processes` uses or, if none is known, those that the rank sees. Returns std::nullopt if
// it sees only a part of one.
std::optional<std::vector<const GpuCounters*>> gpus_for(std::span<const GpuCounters> node_gpus,
                                                        std::span<const pid_t> processes,
                                                        const std::optional<std::string>& cuda_visible_devices) {
  std::vector<const GpuCounters*> gpus = used_by(processes, node_gpus);
  if (!gpus.empty()) return gpus;
  std::vector<GpuFacts> facts;
  for (const GpuCounters& gpu : node_gpus) facts.push_back({static_cast<int>(facts.size()), gpu.uuid, "", {}});
  for (const VisibleGpu& gpu : visible_gpus(cuda_visible_devices, facts)) {
    if (!gpu.index) return std::nullopt;
    gpus.push_back(&node_gpus[static_cast<std::size_t>(*gpu.index)]);
  }
  return gpus;
}

// Returns the memory of the GPU that `processes` hold, or std::nullopt if it is unknown.
std::optional<std::uint64_t> memory_of(const GpuCounters& gpu, std::span<const pid_t> processes) {
  if (gpu.has_node_pids) return gpu.holders.size() == 1 ? gpu.holders.front().bytes : std::nullopt;
  std::optional<std::uint64_t> sum;
  for (const GpuHolder& holder : gpu.holders) {
    if (std::ranges::find(processes, holder.pid) == processes.end()) continue;
    if (!holder.bytes) return std::nullopt;
    sum = sum.value_or(0) + *holder.bytes;
  }
  return sum;
}

}  // namespace

std::string to_line(std::span<const GpuCounters> node_gpus) {
  const wire::Json line = wire::json_of(std::vector<GpuCounters>(node_gpus.begin(), node_gpus.end()));
  return line.dump(-1, ' ', false, wire::Json::error_handler_t::replace) + "\n";
}

std::optional<std::vector<GpuCounters>> gpus_from_line(std::string_view line) try {
  return wire::read_json<std::vector<GpuCounters>>(wire::Json::parse(line));
} catch (const std::exception&) {
  return std::nullopt;
}

std::optional<GpuSample> gpus_of_rank(std::span<const GpuCounters> node_gpus, std::span<const pid_t> processes,
                                      const std::optional<std::string>& cuda_visible_devices) {
  const auto gpus = gpus_for(node_gpus, processes, cuda_visible_devices);
  if (!gpus) return std::nullopt;  // the rank sees only a part of a GPU
  GpuSample sample{0, 0};
  for (const GpuCounters* gpu : *gpus) {
    if (!gpu->busy_percent) return std::nullopt;
    sample.busy_percent = std::max(sample.busy_percent, *gpu->busy_percent);
    const bool is_known = sample.moved_bytes && gpu->moved_bytes;
    sample.moved_bytes = is_known ? std::optional(*sample.moved_bytes + *gpu->moved_bytes) : std::nullopt;
  }
  return sample;
}

RankGpuUse gpu_use_of_rank(std::span<const GpuCounters> node_gpus, std::span<const pid_t> processes,
                           const std::optional<std::string>& cuda_visible_devices) {
  const auto gpus = gpus_for(node_gpus, processes, cuda_visible_devices);
  const bool is_known = !used_by(processes, node_gpus).empty();
  if (!gpus || gpus->empty() || (gpus->size() > 1 && !is_known)) return {};
  RankGpuUse use;
  bool has_all_memory = true;
  for (const GpuCounters* gpu : *gpus) {
    if (gpu->busy_percent) use.share = std::max(use.share.value_or(0), *gpu->busy_percent / 100.0);
    const auto memory = memory_of(*gpu, processes);
    has_all_memory = has_all_memory && memory;
    if (memory) use.memory_bytes = use.memory_bytes.value_or(0) + *memory;
  }
  if (!has_all_memory) use.memory_bytes.reset();
  return use;
}

}  // namespace ddp::launcher
