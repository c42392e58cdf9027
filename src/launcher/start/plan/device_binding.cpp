#include "launcher/start/plan/device_binding.h"

#include <algorithm>

#include "base/text.h"

namespace ddp::launcher {
namespace {

bool is_device_name(const std::string& name) {
  return name.starts_with("GPU-") || name.starts_with("MIG-");
}

// Returns the words between the commas, without the spaces around them.
std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names = base::split(list, ',');
  for (std::string& name : names) name = base::trimmed(name, " ");
  return names;
}

// Returns the GPUs of the node whose UUIDs start with `beginning`.
std::vector<int> with_uuid(const std::string& beginning, const std::vector<GpuFacts>& node_gpus) {
  std::vector<int> found;
  for (const GpuFacts& gpu : node_gpus) {
    if (!gpu.uuid.empty() && gpu.uuid.starts_with(beginning)) found.push_back(gpu.index);
  }
  return found;
}

// Reads the number at the beginning of a word, as CUDA does: "1", "+1" and "1x" are 1. Returns std::nullopt if there is
// none, or if it is none of the node's indices.
std::optional<int> leading_index(const std::string& word, std::size_t gpus) {
  const std::size_t first = word.starts_with('+') ? 1 : 0;
  const std::size_t end = std::min(word.find_first_not_of("0123456789", first), word.size());
  const auto index = base::parse_integer(word.substr(first, end - first), 0, static_cast<std::int64_t>(gpus) - 1);
  return index ? std::optional(static_cast<int>(*index)) : std::nullopt;
}

bool uuids_known(const std::vector<GpuFacts>& node_gpus) {
  return std::ranges::all_of(node_gpus, [](const GpuFacts& gpu) { return !gpu.uuid.empty(); });
}

// The first word of CUDA_VISIBLE_DEVICES decides which words the list may hold.
enum class NameKind : std::uint8_t { index, uuid, mig };

NameKind kind_of(const std::string& name) {
  if (name.starts_with("MIG-")) return NameKind::mig;
  return name.starts_with("GPU-") ? NameKind::uuid : NameKind::index;
}

// Resolves one word of CUDA_VISIBLE_DEVICES. Returns std::nullopt where CUDA would stop reading.
std::optional<VisibleGpu> resolve(const std::string& name, NameKind kind, const std::vector<GpuFacts>& node_gpus) {
  if (kind_of(name) != kind) return std::nullopt;
  if (kind == NameKind::index) {
    const auto index = leading_index(name, node_gpus.size());
    return index ? std::optional(VisibleGpu{std::to_string(*index), index}) : std::nullopt;
  }
  // The parts of a GPU cannot be listed without the driver's library, so their names are not checked.
  if (kind == NameKind::mig) return VisibleGpu{name, std::nullopt};
  const std::vector<int> found = with_uuid(name, node_gpus);
  if (found.size() == 1) return VisibleGpu{name, found.front()};
  if (found.empty() && !uuids_known(node_gpus)) return VisibleGpu{name, std::nullopt};
  return std::nullopt;
}

// Returns the GPUs that the list names up to the word at which CUDA stops reading.
std::vector<VisibleGpu> listed_gpus(const std::string& list, const std::vector<GpuFacts>& node_gpus) {
  std::vector<VisibleGpu> gpus;
  const std::vector<std::string> names = names_of(list);
  if (node_gpus.empty() || names.empty()) return gpus;
  for (const std::string& name : names) {
    const auto gpu = resolve(name, kind_of(names.front()), node_gpus);
    if (!gpu) break;
    gpus.push_back(*gpu);
  }
  return gpus;
}

bool is_same_gpu(const VisibleGpu& a, const VisibleGpu& b) {
  return a.name == b.name || (a.index && a.index == b.index);
}

// Returns the name of the first GPU that is in the list a second time.
std::optional<std::string> repeated(const std::vector<VisibleGpu>& gpus) {
  for (auto gpu = gpus.begin(); gpu != gpus.end(); ++gpu) {
    if (std::any_of(gpus.begin(), gpu, [&](const VisibleGpu& other) { return is_same_gpu(other, *gpu); })) {
      return gpu->name;
    }
  }
  return std::nullopt;
}

base::Failure unknown_gpu(const std::string& asked, const std::string& name, const std::string& why,
                          const std::vector<VisibleGpu>& visible) {
  return {"--gpus=" + asked + ": " + name + " " + why + ". Visible: " + gpu_names(visible) +
          ". Use indices from 0 to " + std::to_string(visible.size() - 1) +
          " (they count among the visible GPUs), UUIDs or MIG names, separated by commas."};
}

base::Result<VisibleGpu> choose_one(const std::string& asked, const std::string& name,
                                    const std::vector<VisibleGpu>& visible, const std::vector<GpuFacts>& node_gpus) {
  if (!is_device_name(name)) {
    const auto index = base::parse_integer(name, 0, std::ssize(visible) - 1);
    if (index) return visible[static_cast<std::size_t>(*index)];
    const std::string what = name.empty() ? "an empty name" : name;
    return unknown_gpu(asked, what, "is not the index of a visible GPU", visible);
  }
  const std::vector<int> found = with_uuid(name, node_gpus);
  if (found.size() > 1) return unknown_gpu(asked, name, "is a prefix of several UUIDs", visible);
  const auto same = std::ranges::find_if(visible, [&](const VisibleGpu& gpu) {
    return gpu.name == name || (!found.empty() && gpu.index == found.front());
  });
  if (same != visible.end()) return VisibleGpu{name, same->index};
  // If all GPUs of the node are visible, a MIG name must belong to one of them. The same holds for a UUID if the driver
  // does not show all UUIDs.
  const bool inherited_names = std::ranges::any_of(visible, [](const VisibleGpu& gpu) { return !gpu.index; });
  const bool all_visible = !inherited_names && visible.size() == node_gpus.size();
  const bool believed = name.starts_with("MIG-") || !uuids_known(node_gpus);
  if (all_visible && believed) return VisibleGpu{name, std::nullopt};
  return unknown_gpu(asked, name, found.empty() ? "is not a GPU of this job" : "is not visible here", visible);
}

// Returns the names of the GPUs for a worker that sees all of them. CUDA reads a list with names of several kinds only
// up to the first change of the kind, so the names of such a list become indices.
base::Result<std::string> shared_list(const std::vector<VisibleGpu>& gpus) {
  const auto is_first_kind = [&](const VisibleGpu& gpu) { return kind_of(gpu.name) == kind_of(gpus.front().name); };
  if (std::ranges::all_of(gpus, is_first_kind)) return gpu_names(gpus);
  std::vector<std::string> names;
  for (const VisibleGpu& gpu : gpus) {
    if (!gpu.index) {
      return base::Failure{"--gpus=" + gpu_names(gpus) +
                           " mixes MIG names and other names, which CUDA does not read in one list. Name only MIG "
                           "devices, or add --device-visibility=own."};
    }
    names.push_back(std::to_string(*gpu.index));
  }
  return base::join(names, ",");
}

base::Result<DeviceBinding> without_gpus(const DeviceRequest& request) {
  const auto workers = static_cast<std::size_t>(request.workers);
  DeviceBinding binding{std::vector<std::optional<std::string>>(workers), {}, ""};
  binding.meant.resize(workers);
  if (!request.virtual_local_rank) return binding;
  if (!request.inherited) {
    // There may be GPUs that the launcher does not know of (for example of another vendor), and LOCAL_RANK no longer
    // distinguishes the workers.
    for (std::size_t i = 0; i < workers; ++i) binding.visible[i] = std::to_string(i);
    return binding;
  }
  std::vector<std::string> names;
  if (!request.inherited->empty()) names = names_of(*request.inherited);
  if (names.size() < workers) {
    return base::Failure{"--virtual-local-rank gives each worker a GPU of its own, but CUDA_VISIBLE_DEVICES=" +
                         *request.inherited + " names " + std::to_string(names.size()) + " for " +
                         base::counted(request.workers, "worker") + ". Lengthen the list, or unset it for a CPU job."};
  }
  std::copy_n(names.begin(), workers, binding.visible.begin());
  return binding;
}

}  // namespace

std::vector<VisibleGpu> visible_gpus(const std::optional<std::string>& cuda_visible_devices,
                                     const std::vector<GpuFacts>& node_gpus) {
  std::vector<VisibleGpu> gpus;
  if (!cuda_visible_devices) {
    for (const GpuFacts& gpu : node_gpus) gpus.push_back({std::to_string(gpu.index), gpu.index});
    return gpus;
  }
  gpus = listed_gpus(*cuda_visible_devices, node_gpus);
  if (repeated(gpus)) gpus.clear();
  return gpus;
}

std::optional<std::string> repeated_gpu(const std::string& cuda_visible_devices,
                                        const std::vector<GpuFacts>& node_gpus) {
  return repeated(listed_gpus(cuda_visible_devices, node_gpus));
}

base::Result<std::vector<VisibleGpu>> choose_gpus(const std::string& asked, const std::vector<VisibleGpu>& visible,
                                                  const std::vector<GpuFacts>& node_gpus) {
  if (visible.empty()) {
    const std::string why =
        node_gpus.empty() ? "this node has no visible GPU" : "CUDA_VISIBLE_DEVICES hides all GPUs of this node";
    return base::Failure{"--gpus=" + asked + ": " + why + ". Leave the option out for a CPU job."};
  }
  std::vector<VisibleGpu> chosen;
  for (const std::string& name : names_of(asked)) {
    const auto gpu = choose_one(asked, name, visible, node_gpus);
    if (!gpu) return gpu.error();
    const bool again =
        std::ranges::any_of(chosen, [&](const VisibleGpu& other) { return is_same_gpu(other, gpu.value()); });
    if (again) {
      return base::Failure{"--gpus=" + asked + " names a GPU twice (" + name +
                           "). Name each once; for several workers on one GPU add --oversubscribe."};
    }
    chosen.push_back(gpu.value());
  }
  return chosen;
}

std::string gpu_names(const std::vector<VisibleGpu>& gpus) {
  std::vector<std::string> names;
  for (const VisibleGpu& gpu : gpus) names.push_back(gpu.name);
  return base::join(names, ",");
}

base::Result<DeviceBinding> bind_devices(const DeviceRequest& request) {
  if (request.gpus.empty()) return without_gpus(request);
  const std::size_t workers = static_cast<std::size_t>(request.workers);
  const std::size_t count = request.gpus.size();
  const bool own = request.own || request.virtual_local_rank;
  DeviceBinding binding{std::vector<std::optional<std::string>>(workers), {}, ""};
  binding.meant.resize(workers);
  if (workers > count && !request.oversubscribe) {
    const std::string numbers = base::counted(request.workers, "worker") + " but " +
                                base::counted(static_cast<std::int64_t>(count), "GPU") + " (" +
                                gpu_names(request.gpus) + ")";
    const std::string remedy =
        ". Use --nproc-per-node=" + std::to_string(count) + ", or share GPUs with --oversubscribe.";
    const bool insists = request.chosen || request.virtual_local_rank || request.backend == "nccl";
    const bool cpu_job = !request.backend.empty() && request.backend.find("nccl") == std::string::npos;
    if (insists) return base::Failure{numbers + remedy};
    if (own && !cpu_job) return base::Failure{numbers + remedy + " For a CPU job use --backend=cpu."};
    if (!cpu_job) binding.note = numbers + "; the workers see all GPUs, which is correct only for a CPU job";
    return binding;
  }
  std::optional<std::string> all;
  if (!own && request.chosen) {
    auto list = shared_list(request.gpus);
    if (!list) return list.error();
    all = std::move(list).value();
  }
  for (std::size_t i = 0; i < workers; ++i) {
    const VisibleGpu& gpu = request.gpus[i % count];
    binding.meant[i] = gpu;
    binding.visible[i] = own ? gpu.name : all;
  }
  return binding;
}

}  // namespace ddp::launcher
