// Describes a rank that got no GPU memory: what it asked for, what was free, who else holds memory, and what to try.
// The functions are pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/job/outcome.h"
#include "launcher/run/process/gpu_holders.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

// Represents an allocation of GPU memory that failed. What the text does not say is std::nullopt.
struct GpuMemoryError {
  // The library that reports the error. Each has its own remedies.
  enum class Source : std::uint8_t { pytorch, runtime, cuda, nccl, cublas };
  struct Other {
    pid_t pid = 0;
    std::uint64_t bytes = 0;

    friend bool operator==(const Other&, const Other&) = default;
  };

  Source source = Source::cuda;
  std::optional<int> device;                  // number of the GPU among those that the program sees
  std::optional<std::uint64_t> asked_bytes;   // size of the allocation
  std::optional<std::uint64_t> free_bytes;    // free memory of the GPU at that time
  std::optional<std::uint64_t> total_bytes;   // memory of the GPU
  std::optional<std::uint64_t> own_bytes;     // memory that the process itself uses
  std::optional<std::uint64_t> unused_bytes;  // memory that PyTorch has reserved but not allocated
  std::vector<Other> others;                  // other processes on the GPU, as PyTorch names them
};

// Returns the last such error in a text, such as an exception's message or the end of a log. Returns std::nullopt if
// the text contains none.
std::optional<GpuMemoryError> find_gpu_memory_error(std::string_view text);

// Represents another process on the GPU.
struct GpuNeighbour {
  GpuUser process;
  std::optional<int> rank = std::nullopt;  // set if it was a rank of this job
  bool has_node_pid = false;               // its pid is that of the node, and this container has other pids
};

struct GpuMemoryFailure {
  GpuMemoryError error;
  std::optional<int> gpu;      // index of the GPU in LaunchPlan::node_gpus; std::nullopt if it is unknown
  std::optional<int> planned;  // index of the plan's GPU for this rank; std::nullopt if it is unknown
  // Processes that the error itself names, ranks of this job with the same GPU, and processes that use the GPU after
  // the failure.
  std::vector<GpuNeighbour> neighbours;
  GpuUsers::Known known = GpuUsers::Known::nothing;
  bool is_partial = false;       // see GpuUsers
  bool is_in_container = false;  // see GpuUsers
};

// Returns the error in what the worker said: in its error record, or else in its last traceback or its last lines.
// Lines before the traceback do not count, because the program may have handled such an error before. They do not count
// either if the record says that the worker failed because of other ranks.
std::optional<GpuMemoryError> gpu_memory_error_of(const std::optional<ErrorRecord>& error,
                                                  const std::vector<std::string>& last_lines);

// Returns the index in plan.node_gpus of the GPU that the error is about. The worker's page is the best source. Without
// it, the number in the error counts the GPUs that the worker sees. Without that, it is the GPU of the plan.
std::optional<int> gpu_of_error(const LaunchPlan& plan, const WorkerEnd& end, const GpuMemoryError& error);

// Combines the error of the culprit with the users of its GPU.
GpuMemoryFailure make_gpu_memory_failure(const LaunchPlan& plan, const JobOutcome& outcome, const GpuMemoryError& error,
                                         const GpuUsers& users);

// Returns the lines for the failure report.
std::vector<std::string> gpu_memory_lines(const GpuMemoryFailure& failure);

}  // namespace ddp::launcher
