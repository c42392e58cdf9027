#include "gpu_reader/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "launcher/run/process/process_tree.h"

namespace ddp::gpu_reader {
namespace {

using launcher::GpuCounters;
using launcher::GpuHolder;

// These declarations are NVML's binary interface, as its reference describes it.
using Device = void*;
using Status = int;
constexpr Status kSuccess = 0;

struct Utilization {
  unsigned gpu;  // per cent of the last sample period (1/6 to 1 s) in which a kernel ran
  unsigned memory;
};

struct Process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(Process) == 24);

struct FieldValue {
  unsigned field;
  unsigned scope;  // for NVLink's fields, a link or all
  long long timestamp;
  long long latency;
  unsigned type;
  Status status;
  unsigned long long value;  // a union; `type` selects the member
};
static_assert(sizeof(FieldValue) == 40);

constexpr unsigned kAllLinks = UINT_MAX;
constexpr unsigned kTypeUnsignedInt = 1;
constexpr unsigned kTypeUnsignedLong = 2;
constexpr unsigned kTypeUnsignedLongLong = 3;

constexpr unsigned kNvlinkCount = 91;
constexpr unsigned kNvlinkSentKib = 138;
constexpr unsigned kNvlinkReceivedKib = 139;
constexpr unsigned kC2cCount = 170;  // links to an adjacent CPU, whose bytes are not counted
constexpr unsigned kPcieSentBytes = 197;
constexpr unsigned kPcieReceivedBytes = 198;

constexpr unsigned kMostProcesses = 256;
constexpr unsigned long long kNotAvailable = ULLONG_MAX;  // NVML_VALUE_NOT_AVAILABLE
constexpr std::uint64_t kKib = 1024;

std::optional<std::uint64_t> number_of(const FieldValue& field) {
  if (field.status != kSuccess) return std::nullopt;
  switch (field.type) {
    case kTypeUnsignedInt: {
      unsigned number = 0;
      std::memcpy(&number, &field.value, sizeof number);
      return number;
    }
    case kTypeUnsignedLong:
    case kTypeUnsignedLongLong:
      return field.value;
    default:
      return std::nullopt;
  }
}

}  // namespace

struct Nvml::State {
  Status (*initialise)() = nullptr;
  Status (*count)(unsigned* count) = nullptr;
  Status (*handle)(unsigned index, Device* device) = nullptr;
  Status (*uuid)(Device device, char* text, unsigned length) = nullptr;
  Status (*utilization)(Device device, Utilization* rates) = nullptr;
  Status (*field_values)(Device device, int count, FieldValue* values) = nullptr;
  Status (*processes)(Device device, unsigned* count, Process* list) = nullptr;
  const char* (*error_text)(Status status) = nullptr;
  std::vector<std::pair<Device, std::string>> gpus;  // the GPUs with their UUIDs
  // In a container, the driver's pids may be those of other processes here.
  bool pids_are_known = !launcher::has_own_pids();

  std::optional<std::uint64_t> moved_bytes(Device device) const;
  std::vector<GpuHolder> holders_of(Device device) const;
};

// Returns std::nullopt unless the counters cover all links that may carry data.
std::optional<std::uint64_t> Nvml::State::moved_bytes(Device device) const {
  std::array<FieldValue, 6> fields{};
  const std::array<std::pair<unsigned, unsigned>, 6> wanted = {{{kPcieSentBytes, 0},
                                                                {kPcieReceivedBytes, 0},
                                                                {kNvlinkSentKib, kAllLinks},
                                                                {kNvlinkReceivedKib, kAllLinks},
                                                                {kNvlinkCount, 0},
                                                                {kC2cCount, 0}}};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    fields[i].field = wanted[i].first;
    fields[i].scope = wanted[i].second;
  }
  if (field_values == nullptr || field_values(device, fields.size(), fields.data()) != kSuccess) return std::nullopt;
  const auto pcie_sent = number_of(fields[0]);
  const auto pcie_received = number_of(fields[1]);
  const auto nvlink_sent = number_of(fields[2]);
  const auto nvlink_received = number_of(fields[3]);
  // The driver may refuse these fields for a GPU without links.
  const bool has_nvlink = number_of(fields[4]).value_or(0) > 0;
  const bool has_c2c = number_of(fields[5]).value_or(0) > 0;
  const bool misses_nvlink = has_nvlink && (!nvlink_sent || !nvlink_received);
  if (!pcie_sent || !pcie_received || misses_nvlink || has_c2c) return std::nullopt;
  return *pcie_sent + *pcie_received + kKib * (nvlink_sent.value_or(0) + nvlink_received.value_or(0));
}

std::vector<GpuHolder> Nvml::State::holders_of(Device device) const {
  std::array<Process, kMostProcesses> list{};
  unsigned found = kMostProcesses;
  if (processes == nullptr || processes(device, &found, list.data()) != kSuccess) return {};
  std::vector<GpuHolder> holders;
  for (unsigned i = 0; i < std::min(found, kMostProcesses); ++i) {
    const bool is_known = list[i].used_memory != kNotAvailable;
    holders.push_back({static_cast<pid_t>(list[i].pid), is_known ? std::optional(list[i].used_memory) : std::nullopt});
  }
  return holders;
}

Nvml::Nvml(std::shared_ptr<const State> state) : state_(std::move(state)) {}

base::Result<Nvml> Nvml::open() {
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return base::Failure{::dlerror()};
  auto state = std::make_shared<State>();
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  if (!find(state->initialise, "nvmlInit_v2") || !find(state->count, "nvmlDeviceGetCount_v2") ||
      !find(state->handle, "nvmlDeviceGetHandleByIndex_v2") || !find(state->uuid, "nvmlDeviceGetUUID") ||
      !find(state->utilization, "nvmlDeviceGetUtilizationRates") || !find(state->error_text, "nvmlErrorString")) {
    return base::Failure{"libnvidia-ml.so.1 lacks required functions"};
  }
  // Older drivers lack these functions, and their values are then unknown.
  find(state->field_values, "nvmlDeviceGetFieldValues");
  find(state->processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  const auto fault = [&](const std::string& what, Status status) {
    return base::Failure{what + ": " + state->error_text(status)};
  };
  if (const Status status = state->initialise(); status != kSuccess) return fault("nvmlInit", status);
  unsigned count = 0;
  if (const Status status = state->count(&count); status != kSuccess) return fault("nvmlDeviceGetCount", status);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    std::array<char, 96> uuid{};
    Status status = state->handle(i, &device);
    if (status == kSuccess) status = state->uuid(device, uuid.data(), uuid.size());
    if (status != kSuccess) return fault("GPU " + std::to_string(i), status);
    state->gpus.emplace_back(device, uuid.data());
  }
  return Nvml(std::move(state));
}

std::vector<GpuCounters> Nvml::read() const {
  std::vector<GpuCounters> node_gpus;
  for (const auto& [device, uuid] : state_->gpus) {
    Utilization rates{};
    const bool is_known = state_->utilization(device, &rates) == kSuccess;
    GpuCounters gpu{
        uuid, is_known ? std::optional(static_cast<int>(rates.gpu)) : std::nullopt, state_->moved_bytes(device), {}};
    gpu.holders = state_->holders_of(device);
    gpu.has_node_pids = !state_->pids_are_known;
    if (state_->pids_are_known) {
      for (const GpuHolder& holder : gpu.holders) gpu.processes.push_back(holder.pid);
    }
    node_gpus.push_back(std::move(gpu));
  }
  return node_gpus;
}

}  // namespace ddp::gpu_reader
