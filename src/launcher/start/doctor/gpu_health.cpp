#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <type_traits>

#include "base/text.h"
#include "launcher/start/doctor/checks.h"

namespace ddp::launcher::doctor {
namespace {

// These declarations are NVML's binary interface, as its reference describes it.
using Device = void*;
using Status = int;
constexpr Status kSuccess = 0;
constexpr int kUncorrected = 1;  // of memory errors
constexpr int kVolatile = 0;     // since the driver was loaded
constexpr int kProhibited = 2;   // compute mode

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  unsigned type;
  Status status;
  unsigned long long value;
};
constexpr unsigned kRecoveryAction = 230;  // of drivers since 570

struct Fabric {
  unsigned char cluster[16];
  Status status;
  unsigned clique;
  unsigned char state;
};
constexpr unsigned char kFabricNotSupported = 0;
constexpr unsigned char kFabricReady = 3;

// A GPU protects itself: bits of the reasons why its clocks are lower.
struct Slowdown {
  unsigned long long bit;
  const char* reason;
};
constexpr Slowdown kSlowdowns[] = {{0x08, "a hardware slowdown"},
                                   {0x20, "its temperature (software)"},
                                   {0x40, "its temperature (hardware)"},
                                   {0x80, "the power brake of the rack or the supply"}};

constexpr const char* kActions[] = {"none", "a reset", "a reboot of the node", "to drain its peers",
                                    "a drain and a reset"};

constexpr unsigned long long kMuchMemory = 512ULL << 20;

// The functions that are missing in an old driver are null.
struct Nvml {
  explicit Nvml(const std::string& file) {
    void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    };
    find(init, "nvmlInit_v2");
    find(count, "nvmlDeviceGetCount_v2");
    find(handle, "nvmlDeviceGetHandleByIndex_v2");
    find(error_text, "nvmlErrorString");
    find(ecc_errors, "nvmlDeviceGetTotalEccErrors");
    find(remapped_rows, "nvmlDeviceGetRemappedRows");
    find(slowdowns, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(memory, "nvmlDeviceGetMemoryInfo");
    find(compute_mode, "nvmlDeviceGetComputeMode");
    find(fields, "nvmlDeviceGetFieldValues");
    find(fabric, "nvmlDeviceGetGpuFabricInfo");
    find(link_state, "nvmlDeviceGetNvLinkState");
    find(link_version, "nvmlDeviceGetNvLinkVersion");
  }

  Status (*init)() = nullptr;
  Status (*count)(unsigned* count) = nullptr;
  Status (*handle)(unsigned index, Device* device) = nullptr;
  const char* (*error_text)(Status status) = nullptr;
  Status (*ecc_errors)(Device device, int kind, int counter, unsigned long long* errors) = nullptr;
  Status (*remapped_rows)(Device device, unsigned* corrected, unsigned* uncorrected, unsigned* is_pending,
                          unsigned* has_failed) = nullptr;
  Status (*slowdowns)(Device device, unsigned long long* reasons) = nullptr;
  Status (*memory)(Device device, Memory* memory) = nullptr;
  Status (*compute_mode)(Device device, int* mode) = nullptr;
  Status (*fields)(Device device, int count, FieldValue* values) = nullptr;
  Status (*fabric)(Device device, Fabric* fabric) = nullptr;
  Status (*link_state)(Device device, unsigned link, int* is_active) = nullptr;
  Status (*link_version)(Device device, unsigned link, unsigned* version) = nullptr;
};

// The bandwidth of one NVLink in each direction, in GB/s, by NVML's number of its version: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0
// and 5.0. NVIDIA's data sheets give the sum over the links and both directions.
constexpr double kNvlinkRates[] = {0, 20, 25, 25, 25, 25, 25, 50};
constexpr unsigned kMostLinks = 18;

// Returns the bandwidth of the NVLinks of a GPU in each direction, in GB/s, or 0.
double nvlink_rate(const Nvml& nvml, Device gpu) {
  double rate = 0;
  if (nvml.link_state == nullptr || nvml.link_version == nullptr) return 0;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int is_active = 0;
    unsigned version = 0;
    if (nvml.link_state(gpu, link, &is_active) != kSuccess || is_active == 0) continue;
    if (nvml.link_version(gpu, link, &version) == kSuccess && version < std::size(kNvlinkRates))
      rate += kNvlinkRates[version];
  }
  return rate;
}

// Returns the smallest bandwidth of the NVLinks of the GPUs, or 0 if one has none or the driver does not say.
double nvlink_rate(const Node& node) {
  const Nvml nvml(node.nvml_library);
  unsigned count = 0;
  if (nvml.init == nullptr || nvml.count == nullptr || nvml.handle == nullptr) return 0;
  if (nvml.init() != kSuccess || nvml.count(&count) != kSuccess || count == 0) return 0;
  double least = std::numeric_limits<double>::max();
  for (unsigned i = 0; i < count; ++i) {
    Device gpu = nullptr;
    least = std::min(least, nvml.handle(i, &gpu) == kSuccess ? nvlink_rate(nvml, gpu) : 0);
  }
  return least;
}

std::string rate_text(double gigabytes) {
  char text[32];
  std::snprintf(text, sizeof text, gigabytes < 10 ? "%.1f GB/s" : "%.0f GB/s", gigabytes);
  return text;
}

void check_memory_errors(const Nvml& nvml, Device gpu, const std::string& name, const std::string& index,
                         Findings& findings) {
  unsigned long long errors = 0;
  if (nvml.ecc_errors != nullptr && nvml.ecc_errors(gpu, kUncorrected, kVolatile, &errors) == kSuccess && errors > 0) {
    findings.push_back(fail(name + " has had " +
                                base::counted(static_cast<std::int64_t>(errors), "uncorrectable memory error") +
                                " since the driver was loaded",
                            "nvidia-smi -q -d ECC -i " + index + ", then nvidia-smi --gpu-reset -i " + index));
  }
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned is_pending = 0;
  unsigned has_failed = 0;
  if (nvml.remapped_rows == nullptr) return;
  if (nvml.remapped_rows(gpu, &corrected, &uncorrected, &is_pending, &has_failed) != kSuccess) return;
  if (has_failed != 0) {
    findings.push_back(fail(name + " could not replace a broken row of its memory", "have the GPU exchanged"));
  } else if (is_pending != 0) {
    findings.push_back(warn(name + " replaces a broken row of its memory at the next reset",
                            "nvidia-smi --gpu-reset -i " + index + ", while no program uses it"));
  }
}

void check_state(const Nvml& nvml, Device gpu, const std::string& name, const std::string& index, Findings& findings) {
  FieldValue action{};
  action.field = kRecoveryAction;
  if (nvml.fields != nullptr && nvml.fields(gpu, 1, &action) == kSuccess && action.status == kSuccess) {
    unsigned number = 0;
    std::memcpy(&number, &action.value, sizeof number);
    const bool is_known = number < std::size(kActions);
    if (number != 0) {
      findings.push_back(fail(name + " needs " + (is_known ? kActions[number] : "recovery") + ", says its driver",
                              "nvidia-smi -q -i " + index + " | grep -i recovery, then do that"));
    }
  }
  int mode = 0;
  if (nvml.compute_mode != nullptr && nvml.compute_mode(gpu, &mode) == kSuccess && mode == kProhibited)
    findings.push_back(fail(name + " may not be used for computing", "nvidia-smi -c 0 -i " + index + ", as root"));
  Fabric fabric{};
  if (nvml.fabric != nullptr && nvml.fabric(gpu, &fabric) == kSuccess && fabric.state != kFabricNotSupported &&
      fabric.state != kFabricReady) {
    findings.push_back(fail(name + " has not joined the NVLink fabric, so CUDA ends with error 802",
                            "systemctl status nvidia-fabricmanager, or nvidia-imex, and wait or restart it"));
  }
}

void check_load(const Nvml& nvml, Device gpu, const std::string& name, const std::string& index, Findings& findings) {
  unsigned long long reasons = 0;
  if (nvml.slowdowns != nullptr && nvml.slowdowns(gpu, &reasons) == kSuccess) {
    for (const auto& [bit, reason] : kSlowdowns) {
      if ((reasons & bit) == 0) continue;
      findings.push_back(
          warn(name + " has lower clocks because of " + reason,
               "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i " + index + ", then its cooling and supply"));
      break;
    }
  }
  Memory memory{};
  if (nvml.memory != nullptr && nvml.memory(gpu, &memory) == kSuccess && memory.used > kMuchMemory) {
    findings.push_back(
        warn(base::human_bytes(memory.used) + " of the memory of " + name + " are used already",
             "nvidia-smi -i " + index + ", and fuser -v /dev/nvidia" + index + " for programs that it hides"));
  }
}

}  // namespace

double pcie_rate(const std::string& speed, std::int64_t lanes) {
  const double transfers = std::strtod(speed.c_str(), nullptr);  // "16.0 GT/s PCIe"
  const bool is_old = transfers < 8;                             // 8 of 10 bits are data, and later 128 of 130
  return transfers * static_cast<double>(lanes) / 8 * (is_old ? 0.8 : 128.0 / 130);
}

Findings check_gpu_links(const Node& node) {
  if (node.gpus.size() < 2) return {ok("no GPU has a peer here")};
  double pcie = 0;
  for (const GpuFacts& gpu : node.gpus) {
    const std::string folder = "/sys/bus/pci/devices/" + gpu.pci_address + "/";
    const auto lanes = base::parse_integer(node.line(folder + "current_link_width"), 1, 32);
    const double rate = lanes ? pcie_rate(node.line(folder + "max_link_speed"), *lanes) : 0;
    pcie = pcie == 0 ? rate : std::min(pcie, rate);
  }
  const double nvlink = nvlink_rate(node);
  if (pcie == 0 && nvlink == 0) return {unknown("neither the driver nor /sys says how fast the GPUs' links are")};
  const std::string of_pcie = pcie == 0 ? "PCIe" : "PCIe, " + rate_text(pcie);
  const std::string disable = node.setting("NCCL_P2P_DISABLE");
  const bool is_off = !disable.empty() && disable != "0";
  if (nvlink == 0) return {ok("GPUs exchange at most " + rate_text(pcie) + " in each direction, over PCIe")};
  if (!is_off) return {ok("GPUs exchange at most " + rate_text(nvlink) + " in each direction, over NVLink")};
  return {warn("NCCL_P2P_DISABLE=" + disable + ": data go over " + of_pcie +
                   " in each direction at most, in place of NVLink, " + rate_text(nvlink),
               "unset NCCL_P2P_DISABLE. ddplaunch doctor --deep proves whether GPUs can write to each other")};
}

base::Result<std::uint64_t> least_free_memory(const Node& node) {
  const Nvml nvml(node.nvml_library);
  if (nvml.init == nullptr || nvml.handle == nullptr || nvml.memory == nullptr || nvml.init() != kSuccess)
    return base::Failure{node.nvml_library + " cannot be used (in a container: NVIDIA_DRIVER_CAPABILITIES=utility)"};
  auto least = std::numeric_limits<std::uint64_t>::max();
  for (const VisibleGpu& visible : node.visible()) {
    Device gpu = nullptr;
    Memory memory{};
    if (!visible.index) return base::Failure{"GPU " + visible.name + " is a part of a GPU, or not on this node"};
    const bool is_known =
        nvml.handle(static_cast<unsigned>(*visible.index), &gpu) == kSuccess && nvml.memory(gpu, &memory) == kSuccess;
    if (!is_known) return base::Failure{"the driver does not tell it of GPU " + std::to_string(*visible.index)};
    least = std::min<std::uint64_t>(least, memory.free);
  }
  return least;
}

Findings check_gpu_health(const Node& node) {
  if (node.gpus.empty()) return {ok("there is no GPU to ask")};
  const Nvml nvml(node.nvml_library);
  if (nvml.init == nullptr || nvml.count == nullptr || nvml.handle == nullptr)
    return {unknown(node.nvml_library + " cannot be opened, so the driver cannot be asked")};
  if (const Status status = nvml.init(); status != kSuccess) {
    const std::string why = nvml.error_text == nullptr ? std::to_string(status) : nvml.error_text(status);
    return {fail("the driver does not answer: " + why, "nvidia-smi, and dmesg | grep -i -e nvrm -e xid")};
  }
  unsigned count = 0;
  if (nvml.count(&count) != kSuccess) return {unknown("the driver does not say how many GPUs there are")};
  Findings findings;
  for (unsigned i = 0; i < count; ++i) {
    const std::string index = std::to_string(i);
    const std::string name = "GPU " + index;
    Device gpu = nullptr;
    if (const Status status = nvml.handle(i, &gpu); status != kSuccess) {
      findings.push_back(fail(name + " is lost, says the driver", "dmesg | grep -i xid, then reboot the node"));
      continue;
    }
    check_memory_errors(nvml, gpu, name, index, findings);
    check_state(nvml, gpu, name, index, findings);
    check_load(nvml, gpu, name, index, findings);
  }
  if (findings.empty())
    findings.push_back(
        ok("the driver reports no trouble of " + base::counted(static_cast<std::int64_t>(count), "GPU")));
  return findings;
}

}  // namespace ddp::launcher::doctor
