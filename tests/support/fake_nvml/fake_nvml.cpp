// Replaces libnvidia-ml.so.1. The file that FAKE_NVML names describes its GPUs, and is read at each call. It has a line
// per GPU, "UUID BUSY_PERCENT PCIE_BYTES NVLINK_KIB PIDS", in which "-" is a value that is not available. PIDS are the
// processes on the GPU, separated by commas, each as PID or PID:BYTES. Without the file, calls hang.
//
// FAKE_NVML_HEALTH has troubles of the second GPU, each as NAME=NUMBER, separated by commas: ecc (uncorrectable
// errors), remap_pending, remap_failed, slowdown (bits), used (MiB of memory), mode (for computing), action (recovery),
// fabric (state), lost (no handle). FAKE_NVML_LINKS is "VERSION COUNT" of the NVLinks of each GPU, in NVML's numbers.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr unsigned long long kNotAvailable = ~0ULL;
constexpr unsigned kUnsignedInt = 1;
constexpr unsigned kUnsignedLongLong = 3;

struct Gpu {
  std::string uuid;
  std::string busy;
  std::string pcie;
  std::string nvlink;
  std::string pids;
};

std::vector<Gpu> gpus() {
  std::ifstream file(std::getenv("FAKE_NVML"));
  while (!file) ::pause();
  std::vector<Gpu> result;
  for (Gpu gpu; file >> gpu.uuid >> gpu.busy >> gpu.pcie >> gpu.nvlink >> gpu.pids;) result.push_back(gpu);
  return result;
}

// A handle is the GPU's index, starting at 1.
Gpu gpu_of(void* device) {
  return gpus().at(reinterpret_cast<std::size_t>(device) - 1);
}

// Returns a number of FAKE_NVML_HEALTH, or 0.
unsigned long long trouble_of(void* device, const std::string& name) {
  const char* text = std::getenv("FAKE_NVML_HEALTH");
  if (text == nullptr || reinterpret_cast<std::size_t>(device) != 2) return 0;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.starts_with(name + "=")) return std::stoull(word.substr(name.size() + 1));
  }
  return 0;
}

// Returns the version and the number of the NVLinks.
std::pair<unsigned, unsigned> links() {
  const char* text = std::getenv("FAKE_NVML_LINKS");
  std::istringstream words(text == nullptr ? "0 0" : text);
  std::pair<unsigned, unsigned> found;
  words >> found.first >> found.second;
  return found;
}

}  // namespace

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct nvmlGpuFabricInfo_t {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};
struct nvmlUtilization_t {
  unsigned gpu;
  unsigned memory;
};
struct nvmlProcessInfo_t {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
struct nvmlFieldValue_t {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  unsigned type;
  int status;
  unsigned long long value;
};

extern "C" {

int nvmlInit_v2() {
  return kSuccess;
}

const char* nvmlErrorString(int) {
  return "Not Supported";
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(gpus().size());
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  constexpr int kGpuIsLost = 15;
  *device = reinterpret_cast<void*>(std::size_t{index} + 1);
  return trouble_of(*device, "lost") != 0 ? kGpuIsLost : kSuccess;
}

int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* errors) {
  *errors = kind == 1 && counter == 0 ? trouble_of(device, "ecc") : 99;
  return kSuccess;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = 3;
  *uncorrected = 1;
  *pending = static_cast<unsigned>(trouble_of(device, "remap_pending"));
  *failed = static_cast<unsigned>(trouble_of(device, "remap_failed"));
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = 0x5 | trouble_of(device, "slowdown");  // idle, and the power cap, are no trouble
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void* device, nvmlMemory_t* memory) {
  const unsigned long long total = 80ULL << 30;
  const unsigned long long used = (1 + trouble_of(device, "used")) << 20;
  *memory = {total, total - used, used};
  return kSuccess;
}
int nvmlDeviceGetComputeMode(void* device, int* mode) {
  *mode = static_cast<int>(trouble_of(device, "mode"));
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, int* is_active) {
  const auto [version, count] = links();
  *is_active = link < count ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkVersion(void*, unsigned, unsigned* version) {
  *version = links().first;
  return kSuccess;
}
int nvmlDeviceGetGpuFabricInfo(void* device, nvmlGpuFabricInfo_t* info) {
  *info = {};
  info->state = static_cast<unsigned char>(trouble_of(device, "fabric"));
  return kSuccess;
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  std::strncpy(text, gpu_of(device).uuid.c_str(), length);
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(void* device, nvmlUtilization_t* rates) {
  const Gpu gpu = gpu_of(device);
  if (gpu.busy == "-") return kNotSupported;
  *rates = {static_cast<unsigned>(std::stoul(gpu.busy)), 0};
  return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, nvmlProcessInfo_t* list) {
  const Gpu gpu = gpu_of(device);
  *count = 0;
  if (gpu.pids == "-") return kSuccess;
  std::istringstream words(gpu.pids);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t colon = word.find(':');
    const bool is_known = colon != std::string::npos;
    list[(*count)++] = {static_cast<unsigned>(std::stoul(word)),
                        is_known ? std::stoull(word.substr(colon + 1)) : kNotAvailable, 0, 0};
  }
  return kSuccess;
}

int nvmlDeviceGetFieldValues(void* device, int count, nvmlFieldValue_t* values) {
  const Gpu gpu = gpu_of(device);
  for (int i = 0; i < count; ++i) {
    nvmlFieldValue_t& value = values[i];
    const auto give = [&](const std::string& text) {
      value.status = text == "-" ? kNotSupported : kSuccess;
      value.type = kUnsignedLongLong;
      value.value = text == "-" ? 0 : std::stoull(text);
    };
    switch (value.field) {
      case 91:  // this field is the number of NVLink links
        value.status = kSuccess;
        value.type = kUnsignedInt;
        value.value = gpu.nvlink == "-" ? 0 : 0xdead000000000002ULL;  // only the lower half holds the number
        break;
      case 138:
        give(value.scope == ~0U ? gpu.nvlink : "-");
        break;
      case 230:  // the action that recovers the GPU
        value.status = kSuccess;
        value.type = kUnsignedInt;
        value.value = 0xdead000000000000ULL | trouble_of(device, "action");
        break;
      case 197:
        give(gpu.pcie);
        break;
      case 139:
        give(gpu.nvlink == "-" ? "-" : "0");
        break;
      case 198:
        give(gpu.pcie == "-" ? "-" : "0");
        break;
      default:
        value.status = kNotSupported;
    }
  }
  return kSuccess;
}

}  // extern "C"
