// Replaces libnvidia-ml.so.1. The file that FAKE_NVML names describes its GPUs, and is read at each call. It has a line
// per GPU, "UUID BUSY_PERCENT PCIE_BYTES NVLINK_KIB PIDS", in which "-" is a value that is not available. PIDS are the
// processes on the GPU, separated by commas, each as PID or PID:BYTES. Without the file, calls hang.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
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

}  // namespace

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
  *device = reinterpret_cast<void*>(std::size_t{index} + 1);
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
