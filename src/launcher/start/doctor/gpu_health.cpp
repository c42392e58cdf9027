#include <dlfcn.h>

#include <cstring>
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
};

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
