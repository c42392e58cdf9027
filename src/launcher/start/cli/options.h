// Options holds what the user requested, as plain values. The defaults are here and nowhere else.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/limits.h"
#include "launcher/start/cli/choices.h"
#include "launcher/start/facts/host_file.h"
#include "launcher/start/log/log_line.h"
#include "store/server/store_limits.h"

namespace ddp::launcher {

// The compatibility mode selects the behaviour of ddplaunch itself, of torchrun (when invoked under that name), or of
// python -m torch.distributed.launch (`ddplaunch launch …`). docs/reference/torchrun.md lists the differences.
enum class CompatibilityMode { native, torchrun, torch_launch };

// Selects streams of the workers, like torchrun's "3" or "0:1,1:3": a mask of kStdout and kStderr by local rank.
struct StreamSelection {
  static constexpr int kStdout = 1;
  static constexpr int kStderr = 2;

  int all = 0;
  std::map<int, int> by_local_rank;  // if not empty, `all` is 0, and ranks that are not named select nothing

  int of(int local_rank) const {
    const auto entry = by_local_rank.find(local_rank);
    return entry == by_local_rank.end() ? all : entry->second;
  }
  bool any() const { return all != 0 || !by_local_rank.empty(); }
  friend bool operator==(const StreamSelection&, const StreamSelection&) = default;
};

// This is the time between SIGTERM and SIGKILL in compatibility mode, unless TORCH_ELASTIC_SHUTDOWN_TIMEOUT sets it.
inline constexpr auto kTorchrunGrace = std::chrono::seconds(30);

// Holds the options that the plan takes unchanged.
struct JobWishes {
  std::string role = "default";
  double image_cost = 0;  // --image-cost as a share of the time; 0 if no images are made
  std::string image_dir;  // --image-dir, absolute; empty if images stay in memory
  int max_restarts = 0;
  std::chrono::milliseconds grace = limits::kDefaultGrace;      // --grace, --shutdown-timeout
  std::chrono::milliseconds exit_timeout{0};                    // --exit-timeout; 0 disables it
  std::vector<std::string> faults;                              // --inject, as written; see wire/fault.h
  std::vector<int> ending_signals = {SIGTERM, SIGINT, SIGHUP};  // --signals-to-handle; as torchrun also SIGQUIT
  std::chrono::milliseconds save_grace{0};                      // --save-grace; 0 if programs are not asked to save
  std::vector<int> save_signals = {SIGTERM, SIGUSR1};           // --save-signals
  std::string save_file;                                        // --save-file
  std::string save_command;                                     // --save-command
  bool let_finish = false;                                      // --let-finish
  bool fallback = false;                                        // --fallback
  std::string preload;                                          // --preload: modules, or kPreloadAuto; empty if none
  CoreDumps core = CoreDumps::inherit;                          // RLIMIT_CORE
  bool virtual_local_rank = false;                              // LOCAL_RANK is always 0, and each worker sees one GPU
  std::string backend;                  // such as "gloo" or "nccl,gloo"; empty if the workers choose
  std::optional<int> stdin_local_rank;  // worker that reads the launcher's standard input; the others read nothing
  bool gather_output = false;           // show the output of all nodes at the first node
  bool end_on_closed_console = false;   // --on-sigpipe=end
  std::string summary_file;             // --summary
  std::string event_log;
  Recording recording = Recording::steps;  // --record
  std::string report_file;                 // --report
  std::string trace_file;                  // --trace
  std::optional<bool> progress_line;       // --progress-line; if not set, on a terminal
  bool live = false;                       // --live
  LogSettings log;
  std::vector<std::string> command_line;  // how ddplaunch was called, as typed; the parser does not set it

  friend bool operator==(const JobWishes&, const JobWishes&) = default;
};

// Holds the options of `ddplaunch doctor` that are not those of a job.
struct DoctorOptions {
  bool this_node = false;      // --node: leave out what other nodes are needed for
  std::string checkpoint_dir;  // empty if none is to be checked
  bool deep = false;
  bool strict = false;
  bool json = false;

  friend bool operator==(const DoctorOptions&, const DoctorOptions&) = default;
};

// The value of --preload with which the preloader looks for PyTorch in the program's imports.
inline constexpr std::string_view kPreloadAuto = "auto";

struct Options : JobWishes {
  CompatibilityMode compatibility_mode = CompatibilityMode::native;

  // These options concern workers and nodes.
  WorkerCount nproc_per_node;
  int min_nodes = 1;  // --nnodes MIN:MAX
  int max_nodes = 1;
  std::optional<int> node_rank;
  std::string scheduler = "auto";  // --scheduler: see facts/cluster_env.h
  std::chrono::milliseconds node_timeout = limits::kDefaultNodeTimeout;
  std::string witness;  // a directory; empty if there is none

  // These options start launchers on hosts over ssh: docs/how-to/ssh.md.
  std::vector<HostEntry> hosts;        // --hosts
  std::string host_file;               // --hostfile
  std::string ssh = "ssh";             // --ssh: a program and its arguments
  std::string remote_launcher;         // empty if it is the path of this launcher
  std::vector<std::string> forwarded;  // --forward-env: NAME, NAME* or NAME=value
  // With --hosts or --hostfile, these are the options for the started launchers, whatever their source is.
  std::vector<std::string> host_words;

  bool over_ssh() const { return !hosts.empty() || !host_file.empty(); }

  // These options concern the rendezvous.
  std::string run_id;  // --rdzv-id; empty for a random one
  std::optional<RdzvBackend> rdzv_backend;
  std::string rdzv_endpoint;  // "", "host" or "host:port"
  std::map<std::string, std::string> rdzv_conf;
  bool standalone = false;
  std::string master_addr;
  std::optional<std::uint16_t> master_port;
  std::string local_addr;

  // These options concern the store.
  std::string auth_token_file;  // empty if there is none
  bool store_open = false;
  store::StoreLimits store_limits;

  // These options concern the program.
  bool module = false;               // -m: the first word of the command is a Python module
  bool no_python = false;            // run the command as it is, also a .py file
  bool run_path = false;             // --run-path
  bool local_rank_argument = false;  // --local_rank=N is the script's first argument (torch.distributed.launch)
  std::vector<std::string> command;  // program and its arguments, verbatim
  std::string subcommand;            // "bench" or "doctor", whose program is ddplaunch's own; empty otherwise
  DoctorOptions doctor;

  // These options concern devices.
  std::optional<std::string> gpus;                    // --gpus: indices, UUIDs, MIG names, separated by commas
  std::optional<DeviceVisibility> device_visibility;  // if not set, own for native programs, otherwise all
  bool oversubscribe = false;                         // several workers on one GPU
  std::optional<NumaBinding> numa_binding;

  // These options concern supervision.
  Check check = Check::off;                               // of the nodes, before the first worker
  std::optional<std::chrono::milliseconds> hang_timeout;  // 0 disables the detection of hangs
  HangLimit hang_limit = HangLimit::fixed;
  HangAction hang_action = HangAction::kill;

  // These options concern the output.
  StreamSelection redirects;                // streams that go to files instead of the console
  StreamSelection tee;                      // streams that go to files and the console
  std::optional<std::string> log_dir;       // "/dev/null" for no files at all
  std::vector<int> console_local_ranks;     // --local-ranks-filter; empty for all ranks
  std::vector<std::string> stdout_filters;  // --duplicate-stdout-filters
  std::vector<std::string> stderr_filters;
  std::optional<std::string> tag;  // template of the text before each line; empty for none
  std::optional<bool> collapse;    // show the same line of several ranks once
  bool lossless = false;           // a slow console slows the workers
  Color color = Color::automatic;

  // These options concern reports.
  bool dry_run = false;
  bool json = false;  // print the plan of --dry-run as JSON

  // Lists options that have no effect here. They are logged once at the start.
  std::vector<std::string> warnings;

  friend bool operator==(const Options&, const Options&) = default;
};

}  // namespace ddp::launcher
