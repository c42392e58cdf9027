// Determines which GPUs the job has, which of them each worker sees, and which one is meant for it. The functions are
// pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/facts/gpu_facts.h"

namespace ddp::launcher {

// Describes a GPU that the job may use.
struct VisibleGpu {
  std::string name;          // as CUDA_VISIBLE_DEVICES names it: an index, a UUID, a MIG name
  std::optional<int> index;  // its GpuFacts::index; std::nullopt for a part of a GPU (MIG) or an unknown UUID

  friend bool operator==(const VisibleGpu&, const VisibleGpu&) = default;
};

// Returns the GPUs that this job may use. An inherited CUDA_VISIBLE_DEVICES selects them (indices, UUIDs or unambiguous
// beginnings of them, MIG names). Its list is read as CUDA reads it, according to the model in PyTorch's
// torch/cuda/__init__.py. It is cut at an index or UUID that does not exist, at "-1", and at a name of another kind
// than the first one. If a GPU is in it twice, no GPU is visible. Without the variable, all GPUs of the node are
// returned.
std::vector<VisibleGpu> visible_gpus(const std::optional<std::string>& cuda_visible_devices,
                                     const std::vector<GpuFacts>& node_gpus);

// Returns the name of the GPU that is in the list twice, so that CUDA shows none.
std::optional<std::string> repeated_gpu(const std::string& cuda_visible_devices,
                                        const std::vector<GpuFacts>& node_gpus);

// Returns the visible GPUs that --gpus selects, in the given order. An index counts within `visible`, as CUDA counts
// within CUDA_VISIBLE_DEVICES. A UUID may be cut short as long as it is unambiguous. A name that is unknown, ambiguous
// or repeated is a failure.
base::Result<std::vector<VisibleGpu>> choose_gpus(const std::string& asked, const std::vector<VisibleGpu>& visible,
                                                  const std::vector<GpuFacts>& node_gpus);

std::string gpu_names(const std::vector<VisibleGpu>& gpus);  // returns text such as "0,3"

struct DeviceRequest {
  int workers = 1;
  std::vector<VisibleGpu> gpus;          // GPUs of the job, in order
  std::optional<std::string> inherited;  // CUDA_VISIBLE_DEVICES as the launcher found it
  bool chosen = false;                   // whether --gpus selected them
  bool own = true;                       // each worker sees only its GPU; otherwise it sees all of them
  bool virtual_local_rank = false;       // each worker sees only its GPU, whatever `own` is
  bool oversubscribe = false;            // allows more workers than GPUs: worker i gets GPU i mod n
  std::string backend;                   // "nccl" needs one GPU per worker; "gloo" and "mpi" need none
};

struct DeviceBinding {
  std::vector<std::optional<std::string>> visible;  // CUDA_VISIBLE_DEVICES by local rank; std::nullopt if unchanged
  std::vector<std::optional<VisibleGpu>> meant;     // GPU of each worker, visible alone or among others
  std::string note;                                 // for the user; usually empty
};

// Having more workers than GPUs is an error unless the workers share GPUs or the job is for CPUs. The backend may show
// that it is for CPUs. The job may also be for CPUs if every worker sees all GPUs and the user has not requested one
// GPU per worker. A note then says so.
base::Result<DeviceBinding> bind_devices(const DeviceRequest& request);

}  // namespace ddp::launcher
