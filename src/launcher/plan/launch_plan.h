// LaunchPlan: everything that is decided before the first process starts, as a value.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/cli/options.h"
#include "launcher/facts/node_facts.h"
#include "launcher/plan/output_plan.h"
#include "launcher/plan/start_failure.h"
#include "store/handshake.h"
#include "store/server/store_limits.h"
#include "wire/fault.h"
#include "wire/limits.h"

namespace ddp::launcher {

// Where the store listens and what the workers are told.
struct StorePlan {
  std::string bind_address = "127.0.0.1";
  std::uint16_t port = 0;                // 0: one that the kernel chooses
  std::string advertised = "127.0.0.1";  // MASTER_ADDR
  bool open = false;                     // to everybody
  store::StoreLimits limits;
  std::shared_ptr<const store::Authenticator> token;  // empty: none
  std::string token_source;                           // what gave it, as messages name it
};

// CPUs and memory of one worker; empty: not bound.
struct WorkerBinding {
  std::vector<int> cpus;          // as the kernel numbers them
  std::vector<int> memory_nodes;  // NUMA nodes to prefer
  std::string description;        // "NUMA node 0, CPUs 0-15 (near GPU 0)"
};

// What is done about ranks that do not go on: watchdog/stall_policy.h.
struct HangPlan {
  std::optional<std::chrono::milliseconds> timeout;  // --hang-timeout, if it was given; 0: hangs are not looked for
  HangLimit limit = HangLimit::fixed;
  HangAction action = HangAction::kill;
  // Without a limit of the user's: a rank that shows no sign of life for so long is given up.
  std::chrono::milliseconds still = limits::kHangStill;
  std::string trace_file;  // DDP_HANG_TRACE; empty: none is written

  bool is_off() const { return timeout && timeout->count() == 0; }
};

// The nodes of a job; one: no others.
struct NodesPlan {
  int min = 1;
  int max = 1;
  std::string asked = "1";                    // --nnodes, as typed
  std::optional<int> rank;                    // every node says its number
  std::chrono::milliseconds join_timeout{0};  // for `min` of them to come
  std::chrono::milliseconds last_call{0};     // for more, up to `max`
  std::chrono::milliseconds node_timeout{0};  // without a word, after which one is lost

  bool several() const { return max > 1; }
};

// What each worker executes.
struct WorkerCommand {
  std::string program;                 // resolved path of what is executed (the interpreter for a script)
  std::vector<std::string> arguments;  // argv, argv[0] first; ${local_rank} is replaced per worker where macros is set
  bool local_rank_macro = false;       // torchrun: $local_rank, ${local_rank} and $$ in arguments
  bool local_rank_argument = false;    // insert --local_rank=N …
  std::size_t local_rank_argument_at = 0;  // … before this argument
  std::string what;                        // for messages: the script, module or program, as typed
};

struct LaunchPlan : JobWishes, WorkerCommand {
  std::string host_name;
  int workers = 1;
  std::vector<std::optional<std::string>> visible_devices;  // by local rank; nothing: left alone
  std::vector<std::optional<std::string>> devices;          // by local rank: the GPU that is meant, for reports
  bool node_has_gpus = false;
  std::vector<WorkerBinding> bindings;  // by local rank; empty: none
  std::optional<int> omp_threads;       // set OMP_NUM_THREADS, unless the user did
  NodesPlan nodes;
  StorePlan store;
  OutputPlan output;
  RunFiles files;
  std::string run_id;
  HangPlan hang;
  bool python_unbuffered = false;  // Python runs behind a wrapper: it gets by a variable what `-u` does for a script
  std::string python_hook;  // a folder for PYTHONPATH, through which PyTorch programs show their collectives; or empty
  std::vector<wire::Fault> timed_faults;           // ours
  std::vector<std::string> notes;                  // warnings and remarks, said at the start unless quiet
  std::vector<std::string> inherited_environment;  // "NAME=value"
};

base::Result<LaunchPlan, StartFailure> make_launch_plan(const Options& options, const NodeFacts& facts);

// What --dry-run prints, and with --json.
std::string describe(const LaunchPlan& plan);
std::string describe_json(const LaunchPlan& plan);

}  // namespace ddp::launcher
