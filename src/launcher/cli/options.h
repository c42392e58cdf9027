// Options: what the user asked for, as plain values. Defaults stand here and nowhere else.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/choices.h"
#include "launcher/facts/host_file.h"
#include "launcher/limits.h"
#include "launcher/log/log_line.h"
#include "store/server/store_limits.h"

namespace ddp::launcher {

// The compatibility mode: our own behaviour, or that of torchrun (called under that name), or of python -m
// torch.distributed.launch (`ddplaunch launch …`). docs/reference/cli.md lists what differs.
enum class CompatibilityMode { native, torchrun, torch_launch };

// Which of a worker's streams, as torchrun's "3" or "0:1,1:3": a mask of kStdout and kStderr by local rank.
struct StreamSelection {
  static constexpr int kStdout = 1;
  static constexpr int kStderr = 2;

  int all = 0;
  std::map<int, int> by_local_rank;  // not empty: `all` is 0; ranks that are not named select nothing

  int of(int local_rank) const {
    const auto entry = by_local_rank.find(local_rank);
    return entry == by_local_rank.end() ? all : entry->second;
  }
  bool any() const { return all != 0 || !by_local_rank.empty(); }
  friend bool operator==(const StreamSelection&, const StreamSelection&) = default;
};

// Between SIGTERM and SIGKILL in the compatibility mode of torchrun, unless TORCH_ELASTIC_SHUTDOWN_TIMEOUT says
// otherwise.
inline constexpr auto kTorchrunGrace = std::chrono::seconds(30);

// What the plan takes from the options as it is.
struct JobWishes {
  std::string role = "default";
  int max_restarts = 0;
  std::chrono::milliseconds grace = limits::kDefaultGrace;      // --grace, --shutdown-timeout
  std::chrono::milliseconds exit_timeout{0};                    // 0: off
  std::vector<std::string> faults;                              // --inject, as written; wire/fault.h
  std::vector<int> ending_signals = {SIGTERM, SIGINT, SIGHUP};  // --signals-to-handle; as torchrun SIGQUIT, too
  std::chrono::milliseconds save_grace{0};                      // --save-grace; 0: programs are not asked to save
  std::vector<int> save_signals = {SIGTERM, SIGUSR1};           // --save-signals
  std::string save_file;                                        // --save-file
  std::string save_command;                                     // --save-command
  bool let_finish = false;                                      // --let-finish
  CoreDumps core = CoreDumps::inherit;                          // RLIMIT_CORE
  bool virtual_local_rank = false;                              // LOCAL_RANK is 0 everywhere, each worker sees its GPU
  std::string backend;                  // "gloo", "nccl", …, or several, joined by commas; empty: the workers choose
  std::optional<int> stdin_local_rank;  // this worker reads our standard input; the others read nothing
  bool gather_output = false;           // of all nodes, at the first one
  bool end_on_closed_console = false;   // --on-sigpipe=end
  std::string summary_file;             // --summary
  std::string event_log;
  LogSettings log;

  friend bool operator==(const JobWishes&, const JobWishes&) = default;
};

struct Options : JobWishes {
  CompatibilityMode compatibility_mode = CompatibilityMode::native;

  // Workers and nodes.
  WorkerCount nproc_per_node;
  int min_nodes = 1;  // --nnodes MIN:MAX
  int max_nodes = 1;
  std::optional<int> node_rank;
  std::string scheduler = "auto";  // --scheduler: facts/cluster_env.h
  std::chrono::milliseconds node_timeout = limits::kDefaultNodeTimeout;

  // Hosts on which launchers are started from here, over ssh: docs/explanation/nodes.md.
  std::vector<HostEntry> hosts;        // --hosts
  std::string host_file;               // --hostfile
  std::string ssh = "ssh";             // --ssh: a program and its words
  std::string remote_launcher;         // empty: where ours is
  std::vector<std::string> forwarded;  // --forward-env: NAME, NAME* or NAME=value
  // With one of the first two: the options as those launchers get them, whatever they came from.
  std::vector<std::string> host_words;

  bool over_ssh() const { return !hosts.empty() || !host_file.empty(); }

  // Rendezvous.
  std::string run_id;  // --rdzv-id; empty: a random one
  std::optional<RdzvBackend> rdzv_backend;
  std::string rdzv_endpoint;  // "", "host" or "host:port"
  std::map<std::string, std::string> rdzv_conf;
  bool standalone = false;
  std::string master_addr;
  std::optional<std::uint16_t> master_port;
  std::string local_addr;

  // Store.
  std::string auth_token_file;  // "": none
  bool store_open = false;
  store::StoreLimits store_limits;

  // Program.
  bool module = false;               // -m: the first word of the command is a Python module
  bool no_python = false;            // run the command as it is, also a .py file
  bool run_path = false;             // --run-path
  bool local_rank_argument = false;  // --local_rank=N is the script's first argument (torch.distributed.launch)
  std::vector<std::string> command;  // program and its arguments, verbatim
  bool bench = false;                // the program is ours, and lies where we do

  // Devices.
  std::optional<std::string> gpus;                    // --gpus: indices, UUIDs, MIG names, separated by commas
  std::optional<DeviceVisibility> device_visibility;  // nothing: own for native programs, all for Python and torchrun
  bool oversubscribe = false;                         // several workers on one GPU
  std::optional<NumaBinding> numa_binding;

  // Supervision.
  std::optional<std::chrono::milliseconds> hang_timeout;  // 0: hangs are not looked for
  HangLimit hang_limit = HangLimit::fixed;
  HangAction hang_action = HangAction::kill;

  // Output.
  StreamSelection redirects;                // to the file instead of the console
  StreamSelection tee;                      // to both
  std::optional<std::string> log_dir;       // "/dev/null": no files at all
  std::vector<int> console_local_ranks;     // --local-ranks-filter; empty: all
  std::vector<std::string> stdout_filters;  // --duplicate-stdout-filters
  std::vector<std::string> stderr_filters;
  std::optional<std::string> tag;  // template of the mark before each line; "": none
  std::optional<bool> collapse;    // the same line of several ranks once
  bool lossless = false;           // a slow console slows the workers
  Color color = Color::automatic;

  // Reports.
  bool dry_run = false;
  bool json = false;  // with --dry-run

  // Said once at the start: what was asked for and has no effect here.
  std::vector<std::string> warnings;

  friend bool operator==(const Options&, const Options&) = default;
};

}  // namespace ddp::launcher
