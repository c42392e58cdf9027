// Defines NodeFacts, what the plan must know about this node. The facts are gathered once; all later steps are pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/start/facts/cluster_env.h"
#include "launcher/start/facts/cpu_topology.h"
#include "launcher/start/facts/gpu_facts.h"
#include "launcher/start/facts/program_facts.h"
#include "launcher/start/facts/resource_limits.h"
#include "launcher/start/facts/standard_input.h"
#include "store/handshake.h"

namespace ddp::launcher {

struct NodeFacts {
  std::string host_name;
  int cpu_count = 1;                     // CPUs that this process may use, by affinity and control groups
  std::uint64_t memory_room = 0;         // bytes; see memory_room()
  std::vector<GpuFacts> gpus;            // NVIDIA GPUs of the node; gather_node_facts() leaves them out
  bool has_uncounted_gpus = false;       // see has_uncounted_gpus(); left out, too
  std::vector<std::string> environment;  // "NAME=value" lines
  ProgramFacts program;                  // program of the command's first word; unset for a Python module
  ProgramFacts interpreter;              // Python; unset if the program runs without it
  bool runs_python = false;              // the command is an executable that runs Python: see runs_python()
  std::string random_id;                 // ID for a run without a name
  std::string random_uuid;               // UUID for a run without a name, in torchrun's format
  ResourceLimits limits;
  bool console_is_terminal = false;  // standard output and standard error are both terminals
  StandardInput standard_input = StandardInput::other;
  base::Result<CpuTopology> topology = CpuTopology();  // read only if it is wanted
  // The token comes from the named file or from DDP_AUTH_TOKEN. It is null if neither is given.
  base::Result<std::shared_ptr<const store::Authenticator>> auth_token = {nullptr};
  std::optional<ClusterEnv> cluster;  // report of the launcher's scheduler; std::nullopt if there is none
  std::vector<std::string> cluster_warnings;
  std::string python_modules;   // folder for PYTHONPATH with the modules that programs may import; may be empty
  std::string python_hook;      // folder for PYTHONPATH; empty if there is none, or if the user does not want it
  std::string nccl_profiler;    // file of the plug-in for NCCL; empty if there is none
  std::string cluster_failure;  // why the scheduler's variables cannot be used
};

// Lists the facts that the plan needs.
struct FactsWanted {
  ProgramKind kind = ProgramKind::executable;
  std::vector<std::string> command;
  std::string auth_token_file;     // empty if no file is named
  std::string scheduler = "auto";  // see ClusterRequest
  bool topology = false;
  std::string python_hook = {};          // folder where the hook is installed
  std::string nccl_profiler = {};        // where the plug-in for NCCL is installed
  std::string virtual_environment = {};  // the launcher's own; empty if there is none
};

// Reads files and the environment only. No library of a driver is loaded.
NodeFacts gather_node_facts(const FactsWanted& wanted);

// Returns the job's token, from `file` if it is named, or from DDP_AUTH_TOKEN in the "NAME=value" lines. Returns null
// if there is neither. The failure says which token cannot be used and why, or that both sources give one.
base::Result<std::shared_ptr<const store::Authenticator>> read_auth_token(const std::string& file,
                                                                          const std::vector<std::string>& environment);

// Removes DDP_AUTH_TOKEN from the launcher's environment. It is also wiped from /proc/PID/environ, where other
// processes of this user could read it.
void hide_auth_token();

// Returns the value of `name` in "NAME=value" lines, or std::nullopt if it is not set.
std::optional<std::string> find_variable(std::span<const std::string> environment, std::string_view name);

}  // namespace ddp::launcher
