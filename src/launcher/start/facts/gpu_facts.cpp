#include "launcher/start/facts/gpu_facts.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/text.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int kMostMinors = 1 << 20;

struct DriverEntry {
  GpuFacts facts;
  bool is_excluded = false;  // the administrator keeps it from CUDA (NVreg_ExcludedGpus)
};

struct DeviceFiles {
  std::set<std::int64_t> minors;  // of the files that may be used
  bool exist = false;             // whether there is any file
};

DeviceFiles find_device_files(const fs::path& folder, const IsDenied& is_denied) {
  DeviceFiles files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("nvidia")) continue;
    const auto minor = base::parse_integer(name.substr(6), 0, kMostMinors);
    if (!minor) continue;
    files.exist = true;
    if (!is_denied(entry.path().string())) files.minors.insert(*minor);
  }
  return files;
}

// Returns the value of a field. The line "GPU UUID:   GPU-5f1c…" has the field "GPU UUID" with the value "GPU-5f1c…".
std::string field(const std::string& line, const std::string& name) {
  if (!line.starts_with(name + ":")) return "";
  return base::trimmed(line.substr(name.size() + 1), " \t");
}

std::optional<int> numa_node(const fs::path& device) {
  std::ifstream file(device / "numa_node");
  int node = -1;
  if (!(file >> node) || node < 0) return std::nullopt;
  return node;
}

std::vector<DriverEntry> driver_entries(const fs::path& root) {
  std::vector<DriverEntry> entries;
  std::error_code ignored;
  for (const auto& folder : fs::directory_iterator(root / "proc/driver/nvidia/gpus", ignored)) {
    DriverEntry entry;
    entry.facts.pci_address = folder.path().filename();
    std::ifstream information(folder.path() / "information");
    for (std::string line; std::getline(information, line);) {
      const std::string uuid = field(line, "GPU UUID");
      // The UUID has question marks until the driver has started the GPU.
      if (!uuid.empty() && uuid.find('?') == std::string::npos) entry.facts.uuid = uuid;
      if (const auto minor = base::parse_integer(field(line, "Device Minor"), 0, kMostMinors))
        entry.facts.minor = static_cast<int>(*minor);
      if (field(line, "GPU Excluded") == "Yes") entry.is_excluded = true;
    }
    entry.facts.numa_node = numa_node(root / "sys/bus/pci/devices" / entry.facts.pci_address);
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, [](const DriverEntry& entry) { return entry.facts.pci_address; });
  return entries;
}

}  // namespace

std::vector<GpuFacts> find_gpus(const std::string& root, const IsDenied& is_denied) {
  const DeviceFiles files = find_device_files(fs::path(root) / "dev", is_denied);
  const std::vector<DriverEntry> entries = driver_entries(root);
  const bool can_be_distinguished = !entries.empty() && std::ranges::all_of(entries, [](const DriverEntry& entry) {
    return entry.facts.minor.has_value();
  });

  std::vector<GpuFacts> gpus;
  if (!files.exist || can_be_distinguished) {
    for (const DriverEntry& entry : entries) {
      if (!entry.is_excluded && (!files.exist || files.minors.contains(*entry.facts.minor)))
        gpus.push_back(entry.facts);
    }
  } else {
    for (const std::int64_t minor : files.minors) gpus.emplace_back().minor = static_cast<int>(minor);
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<int>(i);
  return gpus;
}

std::vector<GpuFacts> find_gpus(const std::string& root) {
  return find_gpus(root, is_denied_by_cgroup);
}

bool is_denied_by_cgroup(const std::string& device_file) {
  return ::access(device_file.c_str(), R_OK | W_OK) != 0 && errno == EPERM;
}

bool has_uncounted_gpus(const std::string& root, const std::vector<GpuFacts>& found) {
  std::error_code ignored;
  return found.empty() && fs::exists(fs::path(root) / "dev/dxg", ignored);
}

}  // namespace ddp::launcher
