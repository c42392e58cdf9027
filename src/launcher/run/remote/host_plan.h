// HostPlan says which launchers are started on which hosts, and with which launch requests. It is a pure function of
// the options and of the facts about this node.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/run/remote/launch_request.h"
#include "launcher/start/cli/options.h"
#include "launcher/start/facts/cluster_env.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

// Holds what the plan must know about the node from which the hosts are reached.
struct ControllerFacts {
  std::string host_name;
  std::string directory;                 // the working directory
  std::string executable;                // path of this program
  std::vector<std::string> environment;  // "NAME=value" lines
  std::string host_file;                 // the content of --hostfile
  std::string token;                     // the user's token; empty if there is none
  std::string failure;                   // why one of these facts cannot be gathered
  std::string job_id;                    // newly generated, as are `new_token` and `nonce`
  std::string new_token;
  std::string nonce;
  bool console_is_terminal = false;
  std::optional<ClusterEnv> cluster;  // report of the scheduler that started this launcher
};

struct HostStart {
  std::string host;
  std::vector<std::string> ssh;  // program and arguments, which end with the host
  std::string launcher;          // path on the host, quoted for a shell
  LaunchRequest request;
};

// Returns the command that is executed on this node.
std::vector<std::string> ssh_command(const HostStart& start);

struct HostPlan {
  std::vector<HostStart> starts;  // by node rank
  Options options;                // of this launcher
};

base::Result<HostPlan, StartFailure> make_host_plan(const Options& options, const ControllerFacts& facts);

// Returns what --dry-run prints: for each host the ssh command and the command line of its launcher.
std::string describe(const HostPlan& plan);
std::string describe_json(const HostPlan& plan);

// Returns the variables of this node's environment that the launchers on other hosts get. They are variables that set
// up such programs (PATH, PYTHONPATH, NCCL_* and so on; docs/how-to/ssh.md lists them), and those that
// `requests` name: NAME, NAME* or NAME=value. A job's own variables (ranks, the rendezvous) are left out.
// CUDA_VISIBLE_DEVICES is left out unless it is requested, because each node has its own. The token is never included.
// Each name occurs once. The failure names a request whose variable is not set.
base::Result<std::vector<std::string>> forwarded_environment(std::span<const std::string> environment,
                                                             std::span<const std::string> requests);

}  // namespace ddp::launcher
