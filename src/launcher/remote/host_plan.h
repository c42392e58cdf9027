// HostPlan: which launchers are started on which hosts, and with which launch request each. A pure function of the
// options and of what is known of this machine.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/facts/cluster_env.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/remote/launch_request.h"

namespace ddp::launcher {

// What the plan must know of the machine from which the hosts are reached.
struct ControllerFacts {
  std::string host_name;
  std::string directory;                 // the working directory
  std::string executable;                // of this program
  std::vector<std::string> environment;  // "NAME=value"
  std::string host_file;                 // the content of --hostfile
  std::string token;                     // the user's; empty: none
  std::string failure;                   // why one of these cannot be had
  std::string job_id;                    // fresh ones
  std::string new_token;
  std::string nonce;
  bool console_is_terminal = false;
  std::optional<ClusterEnv> cluster;  // the scheduler that started us
};

struct HostStart {
  std::string host;
  std::vector<std::string> ssh;  // program and arguments, which end with the host
  std::string launcher;          // the path there, as a shell takes it
  LaunchRequest request;
};

// What is executed here.
std::vector<std::string> ssh_command(const HostStart& start);

struct HostPlan {
  std::vector<HostStart> starts;  // by node rank
  std::chrono::milliseconds grace{0};
  std::chrono::milliseconds node_timeout{0};
  std::chrono::milliseconds save_grace{0};
  std::vector<int> ending_signals;
  bool lossless = false;
  bool end_on_closed_console = false;
};

base::Result<HostPlan, StartFailure> make_host_plan(const Options& options, const ControllerFacts& facts);

// What --dry-run prints: for each host the ssh command and the command line of its launcher.
std::string describe(const HostPlan& plan);
std::string describe_json(const HostPlan& plan);

// Which variables of this machine's environment the launchers on other hosts get: those that programs of this kind are
// set up with (PATH, PYTHONPATH, NCCL_* and so on; docs/explanation/nodes.md lists them), and what `requests` name:
// NAME, NAME* or NAME=value. A job's own variables (ranks, the rendezvous) stay here, as does CUDA_VISIBLE_DEVICES,
// which each node has its own of, unless it is asked for. The token is never among them. Each name once. The failure
// names the request that is not set.
base::Result<std::vector<std::string>> forwarded_environment(std::span<const std::string> environment,
                                                             std::span<const std::string> requests);

}  // namespace ddp::launcher
