// NodeFacts: what the plan must know about this node. Gathered once; everything after it is pure.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/facts/cluster_env.h"
#include "launcher/facts/cpu_topology.h"
#include "launcher/facts/gpu_facts.h"
#include "launcher/facts/program_facts.h"
#include "launcher/facts/resource_limits.h"
#include "store/handshake.h"

namespace ddp::launcher {

struct NodeFacts {
  std::string host_name;
  int cpu_count = 1;                     // those this process may use: affinity and control groups
  std::vector<GpuFacts> gpus;            // NVIDIA GPUs of the node
  std::vector<std::string> environment;  // "NAME=value"
  ProgramFacts program;                  // of the command's first word; untouched for a Python module
  ProgramFacts interpreter;              // Python; untouched if the program runs without
  bool runs_python = false;              // the command is an executable that does so: see runs_python()
  std::string random_id;                 // for a run without a name
  std::string random_uuid;               // the same as torchrun writes it
  ResourceLimits limits;
  bool console_is_terminal = false;                    // standard output and standard error are both terminals
  base::Result<CpuTopology> topology = CpuTopology();  // read only if it is wanted
  // Of the file that was named, or of DDP_AUTH_TOKEN; null if none is meant.
  base::Result<std::shared_ptr<const store::Authenticator>> auth_token = {nullptr};
  std::optional<ClusterEnv> cluster;  // what the scheduler that started us says; nothing: there is none
  std::vector<std::string> cluster_warnings;
  std::string python_hook;      // a folder for PYTHONPATH; empty: there is none, or the user does not want it
  std::string cluster_failure;  // why its variables cannot be believed
};

// What the plan wants to know.
struct FactsWanted {
  ProgramKind kind = ProgramKind::executable;
  std::vector<std::string> command;
  std::string auth_token_file;     // empty: none is named
  std::string scheduler = "auto";  // see ClusterRequest
  bool topology = false;
  std::string python_hook = {};          // where the folder is installed
  std::string virtual_environment = {};  // of the launcher itself; empty: none
};

// Reads files and the environment only: no driver library is loaded, nothing here can hang on a GPU.
NodeFacts gather_node_facts(const FactsWanted& wanted);

// The job's token: of the file, if one is named, or of DDP_AUTH_TOKEN in the "NAME=value" lines; null if there is
// neither. The failure says whose token cannot be used, and why, or that both give one.
base::Result<std::shared_ptr<const store::Authenticator>> read_auth_token(const std::string& file,
                                                                          const std::vector<std::string>& environment);

// Takes DDP_AUTH_TOKEN out of our environment, also where others of this user could see it: /proc/PID/environ.
void hide_auth_token();

// The value of `name` in "NAME=value" lines.
std::optional<std::string> find_variable(std::span<const std::string> environment, std::string_view name);

}  // namespace ddp::launcher
