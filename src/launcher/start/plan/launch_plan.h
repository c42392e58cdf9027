// LaunchPlan is a value that holds everything that is decided before the first process starts.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/cli/options.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/hang_plan.h"
#include "launcher/start/plan/output_plan.h"
#include "launcher/start/plan/start_failure.h"
#include "store/handshake.h"
#include "store/server/store_limits.h"
#include "wire/fault.h"
#include "wire/limits.h"

namespace ddp::launcher {

// Says where the store listens, and which address the workers get.
struct StorePlan {
  std::string bind_address = "127.0.0.1";
  std::uint16_t port = 0;                // 0 if the kernel chooses the port
  std::string advertised = "127.0.0.1";  // value of MASTER_ADDR
  bool open = false;                     // accepts every client
  bool warns = true;                     // says which processes can reach it
  store::StoreLimits limits;
  std::shared_ptr<const store::Authenticator> token;  // null if there is none
  std::string token_source;                           // source of the token, as messages name it
};

// Lists the CPUs and the memory of one worker. It is empty if the worker is not bound.
struct WorkerBinding {
  std::vector<int> cpus;          // the kernel's numbers
  std::vector<int> memory_nodes;  // NUMA nodes to prefer
  std::string description;        // "NUMA node 0, CPUs 0-15 (near GPU 0)"
};

// What the attempts of a job have left that an earlier call of launch() has run.
struct EarlierAttempts {
  int count = 0;
  int nodes = 0;  // of the last one; 0 if this node took part in none
  int node_rank = 0;
  std::string node_name;
  std::vector<std::string> events;  // for --report; see EventMemory
};

// Describes the nodes of a job. If there is one, it has no others.
struct NodesPlan {
  int min = 1;
  int max = 1;
  // How many of them come at once, as their check has shown. The job does not wait long for others.
  std::optional<int> expected;
  // The job that checks the nodes of another one, which follows at the same endpoint.
  bool is_check = false;
  std::string asked = "1";                    // --nnodes as text
  std::optional<int> rank;                    // set if every node gives its number
  std::chrono::milliseconds join_timeout{0};  // how long to wait for `min` nodes
  std::chrono::milliseconds last_call{0};     // how long to wait for more nodes, up to `max`
  std::chrono::milliseconds node_timeout{0};  // silence after which a node is lost
  std::string witness;                        // directory in which one of two nodes claims the job; may be empty

  bool several() const { return max > 1; }
};

// Describes what each worker executes.
struct WorkerCommand {
  std::string program;                     // resolved path of the executed program (the interpreter for a script)
  std::vector<std::string> arguments;      // argv, including argv[0]
  bool local_rank_macro = false;           // replace $local_rank, ${local_rank} and $$ in arguments, as torchrun does
  bool local_rank_argument = false;        // insert --local_rank=N into the arguments
  std::size_t local_rank_argument_at = 0;  // index of the argument before which it is inserted
  std::string what;                        // script, module or program as typed, for messages
  std::string interpreter_note;            // why VIRTUAL_ENV does not provide the interpreter; empty if it does
};

struct LaunchPlan : JobWishes, WorkerCommand {
  std::string host_name;
  std::uint64_t memory_room = 0;  // see NodeFacts
  int workers = 1;
  std::vector<std::optional<std::string>> visible_devices;  // by local rank; std::nullopt if it is not changed
  std::vector<std::optional<std::string>> devices;          // GPU meant for each worker, by local rank, for reports
  std::vector<std::optional<int>> device_indices;           // their indices in node_gpus; std::nullopt if unknown
  std::vector<GpuFacts> node_gpus;
  bool node_has_gpus = false;
  bool has_uncounted_gpus = false;      // the node may have GPUs that only the driver's library can find
  std::vector<WorkerBinding> bindings;  // by local rank; empty if the workers are not bound
  std::optional<int> omp_threads;       // value of OMP_NUM_THREADS, unless the user has set it
  NodesPlan nodes;
  EarlierAttempts earlier;
  StorePlan store;
  OutputPlan output;
  RunFiles files;
  std::string run_id;
  HangPlan hang;
  bool is_native_program = false;  // an executable that does not run Python, not under the name torchrun
  bool python_unbuffered = false;  // set PYTHONUNBUFFERED, because Python runs behind a wrapper without -u
  std::string python_modules;      // folder for PYTHONPATH with modules that programs may import; may be empty
  std::string python_hook;    // folder for PYTHONPATH that makes PyTorch programs show their collectives; may be empty
  std::string nccl_profiler;  // plug-in that makes NCCL show its collectives; empty if there is none
  std::string preload_refused;            // why no worker can be forked; empty if it can, or if none should
  std::vector<wire::Fault> timed_faults;  // faults that the launcher injects
  // Warnings and remarks, logged at the start unless quiet. Those about the job are alike on all nodes, so that only
  // the first node shows them.
  std::vector<std::string> notes;
  std::vector<std::string> node_notes;             // about this node
  std::vector<std::string> inherited_environment;  // "NAME=value" lines
};

base::Result<LaunchPlan, StartFailure> make_launch_plan(const Options& options, const NodeFacts& facts);

// Returns what --dry-run prints. describe_json() is for --json.
std::string describe(const LaunchPlan& plan);
std::string describe_json(const LaunchPlan& plan);

}  // namespace ddp::launcher
