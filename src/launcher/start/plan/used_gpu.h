// Compares the GPUs that the workers use, as they report them, with the GPUs of the plan. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

// Returns whether the driver has not shown the UUIDs of all GPUs. Without persistence mode, it shows the UUID of a GPU
// only after a program has used the GPU.
bool lacks_uuids(const LaunchPlan& plan);

// Returns the plan with the UUIDs that the driver shows now. `node_gpus` is what find_gpus() returns now.
LaunchPlan with_uuids(LaunchPlan plan, const std::vector<GpuFacts>& node_gpus);

// Returns the index in plan.node_gpus of the GPU with this UUID, which has no "GPU-" before it. Returns std::nullopt if
// the node has no such GPU, or if the driver has not shown its UUID.
std::optional<int> find_gpu(const LaunchPlan& plan, const std::string& uuid);

// Returns whether the worker uses another GPU of the node than the plan's. Returns false if one of them is unknown. A
// MIG slice is not compared with the GPU that contains it, because the node's files do not show the slices.
bool uses_other_gpu(const LaunchPlan& plan, int local_rank, const std::string& uuid);

// Returns the GPU that the worker uses, as reports name it: "2", or "2 (planned: 0)" if that is another GPU than the
// plan's. Returns an empty text if the worker has no GPU.
std::string used_gpu(const LaunchPlan& plan, int local_rank, const std::string& uuid);

// Returns the GPUs that the plan gives to the workers of this node, as CUDA_VISIBLE_DEVICES names them, each once. They
// are indices in the order of PCI addresses if these are known. Returns none if that of a worker is unknown.
std::vector<std::string> gpus_of_workers(const LaunchPlan& plan);
// Returns whether the plan gives several GPUs to the workers of this node.
bool has_pair_of_gpus(const LaunchPlan& plan);

struct UsedGpu {
  int local_rank = 0;
  std::string uuid;
};

// Returns a warning about the workers that use other GPUs than the plan's, with the likely reason and a remedy. `used`
// contains only such workers, and at least one.
std::string describe_other_gpus(const LaunchPlan& plan, int first_rank, const std::vector<UsedGpu>& used);

}  // namespace ddp::launcher
