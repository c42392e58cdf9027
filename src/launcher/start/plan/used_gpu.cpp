#include "launcher/start/plan/used_gpu.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/start/facts/node_facts.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kUuidLength = 36;

// Returns the UUID without the word before it, or an empty text if the name is no UUID.
std::string uuid_in(const std::string& name) {
  return name.starts_with("GPU-") || name.starts_with("MIG-") ? name.substr(4) : "";
}

// Returns the UUID of the GPU that the plan gives to the worker, perhaps only its beginning. Returns an empty text if
// it is unknown.
std::string planned_uuid(const LaunchPlan& plan, int local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  if (index >= plan.devices.size() || !plan.devices[index]) return "";
  const std::optional<int> gpu = index < plan.device_indices.size() ? plan.device_indices[index] : std::nullopt;
  return uuid_in(gpu ? plan.node_gpus.at(static_cast<std::size_t>(*gpu)).uuid : *plan.devices[index]);
}

std::string name_with_uuid(const LaunchPlan& plan, const std::string& uuid) {
  const auto index = find_gpu(plan, uuid);
  return index ? "GPU " + std::to_string(*index) + " (GPU-" + uuid + ")" : "GPU-" + uuid;
}

std::string planned_name(const LaunchPlan& plan, int local_rank) {
  const std::string uuid = planned_uuid(plan, local_rank);
  const std::string& name = *plan.devices.at(static_cast<std::size_t>(local_rank));
  return name.starts_with("MIG-") ? name : name_with_uuid(plan, uuid);
}

// Says why CUDA probably counts other GPUs than the launcher, and what to do.
std::string reason_and_remedy(const LaunchPlan& plan) {
  const auto visible = find_variable(plan.inherited_environment, wire::env::kCudaVisibleDevices);
  const bool is_under_slurm = find_variable(plan.inherited_environment, "SLURM_JOB_ID").has_value();
  const bool is_by_address = find_variable(plan.inherited_environment, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID";
  if (is_under_slurm && visible) {
    return "A control group of Slurm probably hides some GPUs, so that CUDA_VISIBLE_DEVICES=" + *visible +
           " counts only the others. Name the GPUs by UUID in CUDA_VISIBLE_DEVICES (nvidia-smi -L lists them).";
  }
  if (!is_by_address) {
    return "CUDA_DEVICE_ORDER is not PCI_BUS_ID, so CUDA counts the fastest GPU first. Export "
           "CUDA_DEVICE_ORDER=PCI_BUS_ID.";
  }
  return "The program or a wrapper may have changed CUDA_VISIBLE_DEVICES, or a container may hide GPUs. Name the GPUs "
         "by UUID with --gpus (nvidia-smi -L lists them).";
}

}  // namespace

bool lacks_uuids(const LaunchPlan& plan) {
  return std::ranges::any_of(plan.node_gpus, [](const GpuFacts& gpu) { return gpu.uuid.empty(); });
}

LaunchPlan with_uuids(LaunchPlan plan, const std::vector<GpuFacts>& node_gpus) {
  for (GpuFacts& gpu : plan.node_gpus) {
    const auto same = std::ranges::find(node_gpus, gpu.pci_address, &GpuFacts::pci_address);
    if (!gpu.pci_address.empty() && gpu.uuid.empty() && same != node_gpus.end()) gpu.uuid = same->uuid;
  }
  return plan;
}

std::optional<int> find_gpu(const LaunchPlan& plan, const std::string& uuid) {
  if (uuid.empty()) return std::nullopt;
  for (const GpuFacts& gpu : plan.node_gpus) {
    if (uuid_in(gpu.uuid) == uuid) return gpu.index;
  }
  return std::nullopt;
}

bool uses_other_gpu(const LaunchPlan& plan, int local_rank, const std::string& uuid) {
  const std::string planned = planned_uuid(plan, local_rank);
  if (uuid.empty() || planned.empty() || uuid.starts_with(planned)) return false;
  const bool is_slice = plan.devices[static_cast<std::size_t>(local_rank)]->starts_with("MIG-");
  return is_slice ? planned.size() == kUuidLength : find_gpu(plan, uuid).has_value();
}

std::string used_gpu(const LaunchPlan& plan, int local_rank, const std::string& uuid) {
  const auto index = static_cast<std::size_t>(local_rank);
  const std::string planned = index < plan.devices.size() ? plan.devices[index].value_or("") : "";
  const auto used = find_gpu(plan, uuid);
  if (used && uses_other_gpu(plan, local_rank, uuid)) {
    return std::to_string(*used) + " (planned: " + planned + ")";
  }
  return planned.empty() && used ? std::to_string(*used) : planned;
}

std::vector<std::string> gpus_of_workers(const LaunchPlan& plan) {
  std::vector<std::string> names;
  // CUDA stops at a name of another kind than the first one.
  const bool are_indices = std::ranges::all_of(plan.device_indices, &std::optional<int>::has_value);
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    if (!plan.devices[i]) return {};
    const std::string name = are_indices ? std::to_string(*plan.device_indices[i]) : *plan.devices[i];
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

bool has_pair_of_gpus(const LaunchPlan& plan) {
  return gpus_of_workers(plan).size() > 1;
}

std::string describe_other_gpus(const LaunchPlan& plan, int first_rank, const std::vector<UsedGpu>& used) {
  const UsedGpu& first = used.front();
  std::string text = "rank " + std::to_string(first_rank + first.local_rank) + " uses " +
                     name_with_uuid(plan, first.uuid) + ", but the plan gives it " +
                     planned_name(plan, first.local_rank);
  std::vector<std::string> others;
  for (std::size_t i = 1; i < used.size(); ++i) others.push_back(std::to_string(first_rank + used[i].local_rank));
  if (!others.empty()) {
    text += "; " + base::plural(others.size(), "rank ", "ranks ") + base::join(others, ", ") +
            base::plural(others.size(), " uses another GPU, too", " use other GPUs, too");
  }
  text += ". " + reason_and_remedy(plan);
  if (!plan.bindings.empty()) text += " The CPUs of --numa-binding are near the planned GPUs.";
  return text;
}

}  // namespace ddp::launcher
