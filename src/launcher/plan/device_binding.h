// Which GPUs the job has, which of them each worker sees, and which one is meant for it: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/facts/gpu_facts.h"

namespace ddp::launcher {

// A GPU that the job may use.
struct VisibleGpu {
  std::string name;          // as CUDA_VISIBLE_DEVICES names it: an index, a UUID, a MIG name
  std::optional<int> index;  // its GpuFacts::index; nothing for a part of a GPU (MIG) or an unknown UUID

  friend bool operator==(const VisibleGpu&, const VisibleGpu&) = default;
};

// The GPUs this job may use: those of an inherited CUDA_VISIBLE_DEVICES (indices, UUIDs or unambiguous beginnings of
// them, MIG names), cut where CUDA itself would stop reading (an index or UUID that does not exist, or "-1"), else all
// of the node.
std::vector<VisibleGpu> visible_gpus(const std::optional<std::string>& cuda_visible_devices,
                                     const std::vector<GpuFacts>& node_gpus);

// --gpus: some of the visible ones, in the order given. An index counts within `visible`, as CUDA counts within
// CUDA_VISIBLE_DEVICES; a UUID may be cut short as long as it is unambiguous. What is unknown, ambiguous or named twice
// is refused.
base::Result<std::vector<VisibleGpu>> choose_gpus(const std::string& asked, const std::vector<VisibleGpu>& visible,
                                                  const std::vector<GpuFacts>& node_gpus);

std::string gpu_names(const std::vector<VisibleGpu>& gpus);  // "0,3"

struct DeviceRequest {
  int workers = 1;
  std::vector<VisibleGpu> gpus;          // of the job, in order
  std::optional<std::string> inherited;  // CUDA_VISIBLE_DEVICES as the launcher found it
  bool chosen = false;                   // by --gpus
  bool own = true;                       // each worker sees its GPU only; false: all of them
  bool virtual_local_rank = false;       // own, whatever `own` says
  bool oversubscribe = false;            // more workers than GPUs: worker i gets GPU i mod n
  std::string backend;                   // "nccl" needs a GPU each; "gloo" and "mpi" are content without
};

struct DeviceBinding {
  std::vector<std::optional<std::string>> visible;  // CUDA_VISIBLE_DEVICES by local rank; nothing: left alone
  std::vector<std::optional<VisibleGpu>> meant;     // the GPU of each worker, seen alone or among others
  std::string note;                                 // for the user; usually empty
};

// More workers than GPUs is an error, unless they share, or the job is one for CPUs: by its backend, or possibly so
// because every worker sees all GPUs and nobody asked for one each (then a note says so).
base::Result<DeviceBinding> bind_devices(const DeviceRequest& request);

}  // namespace ddp::launcher
