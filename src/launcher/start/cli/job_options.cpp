#include "launcher/start/cli/job_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <tuple>

#include "base/text.h"
#include "launcher/start/cli/log_options.h"
#include "launcher/start/cli/values.h"
#include "launcher/start/facts/cluster_env.h"
#include "store/server/store_limits.h"
#include "wire/fault.h"

namespace ddp::launcher {

const char* const kDescription =
    "Starts one worker process per GPU, or as many as you ask for, and gives each its rank and a rendezvous store. If "
    "one rank fails, ddplaunch terminates the others and reports which rank failed and why.";

const char* const kProgramRule =
    "Options come before the program; everything after it is passed to the program. Option names may be written with "
    "dashes or underscores, and values as --name value or --name=value. SECONDS is a number, or a time with units such "
    "as "
    "500ms, 90s, 10m or 1h30m. If an option is given several times, the last one counts. Options that are not on the "
    "command line are read from PET_<NAME> variables (PET_NPROC_PER_NODE), "
    "then from --config.";

const char* const kExitCodes =
    "ddplaunch exits with the code of the rank that failed first (128 + n if signal n killed it). Other codes: 2: "
    "wrong usage, or --check fails; 75: the program saved and left when it was asked to; 124: the job hung, or ranks did not exit; 125: "
    "an error of ddplaunch itself; 126: the program cannot be executed; 127: the program was not found; 130: Ctrl-C; "
    "143: SIGTERM.";

namespace {

template <typename Use>
Take using_value(Use use) {
  return [use](const std::string& value) {
    use(value);
    return Mistake();
  };
}

template <typename Parsed, typename Use>
Take parsed(base::Result<Parsed> (*parse)(const std::string&), Use use) {
  return [parse, use](const std::string& text) {
    auto value = parse(text);
    if (!value) return Mistake(value.error().message);
    use(std::move(value).value());
    return Mistake();
  };
}

template <typename Parsed, typename T>
Take parsed_as(base::Result<Parsed> (*parse)(const std::string&), T& target) {
  return parsed(parse, [&target](Parsed value) { target = std::move(value); });
}

template <typename Text>
Take text(Text& target) {
  return using_value([&target](const std::string& value) { target = value; });
}

constexpr int kMost = 1'000'000;

void workers(OptionSet& c, Options& o) {
  c.group("Workers and nodes");
  c.value("--nproc-per-node", "N:{auto,gpu,cpu,...}", parsed_as(parse_workers, o.nproc_per_node),
          "Start this many workers per node: a number, one per GPU (gpu), one per CPU (cpu), or one per GPU if there "
          "are any, else one per CPU (auto). [default: one per visible GPU, or 1 without GPUs; 1 when invoked as "
          "torchrun]");
  c.value("--nnodes", "N|MIN:MAX",
          parsed(parse_nodes, [&o](const auto& nodes) { std::tie(o.min_nodes, o.max_nodes) = nodes; }),
          "Run the job on this many nodes; give every node the same value. [default: 1]");
  c.value("--node-rank", "N", integer(o.node_rank, 0, kMost),
          "Set the number of this node, from 0. [default: in the order in which the nodes meet]");
  c.choice("--scheduler", "NAME", base::join(scheduler_names(), " "),
           using_value([&o](const std::string& name) { o.scheduler = name; }),
           "Read the number of nodes and the rank of this one from this scheduler. [default: auto]");
  c.value("--node-timeout", "SECONDS", parsed_as(parse_node_timeout, o.node_timeout),
          "Treat a node as lost if it sends nothing for this long. [default: 10]");
  c.value("--witness", "DIR", some_text(o.witness, "a directory"),
          "Let one of two nodes go on without the other if it claims the job first in this shared directory.");
  c.value("--role", "NAME", some_text(o.role, "the role"),
          "Set the role of the workers (ROLE_NAME). [default: default]");
  c.value("--hosts", "HOST[:N],...", parsed_as(parse_host_words, o.hosts),
          "Start a launcher on each of these hosts over ssh, with N workers each, such as a,b:4,node[1-3].");
  c.value("--hostfile", "FILE", some_text(o.host_file, "a file"),
          "Start a launcher on each host of this file, whose lines read host, host:4 or host slots=4.");
  c.value("--ssh", "COMMAND", parsed_as(parse_program, o.ssh),
          "Run this ssh program, with options separated by spaces, such as 'ssh -p 2222'. [default: ssh]");
  c.value("--remote-launcher", "PATH", some_text(o.remote_launcher, "a path"),
          "Run ddplaunch from this path on the hosts. [default: the same path as here]");
  c.value("--forward-env", "NAMES",
          parsed(parse_forwarded, [&o](const auto& names) { base::append(o.forwarded, names); }),
          "Pass these variables to the hosts, too, separated by commas: NAME, NAME* or NAME=value. May be repeated.")
      ->take_all();
}

void program(OptionSet& c, Options& o) {
  c.group("Program");
  c.flag("-m,--module", o.module, "Run the program as a Python module, as python -m does.");
  c.flag("--no-python", o.no_python, "Execute the program directly, even if it is a .py file.");
  c.flag("--run-path", o.run_path, "Run the program as a Python script, whatever its name is.");
  c.flag("--use-env", using_value([&o](const std::string& on) {
           o.local_rank_argument = o.compatibility_mode == CompatibilityMode::torch_launch && on == "0";
         }),
         "Do not pass --local_rank to the script, which reads LOCAL_RANK instead; only for ddplaunch launch.");
  c.value("--preload", "MODULE,...|auto|off", parsed_as(parse_preload, o.preload),
          "Import these Python modules once per node, and fork the workers from the process that has imported them. "
          "auto: torch, if the program imports it. [default: off]")
      ->envname("DDP_PRELOAD");
  c.value("--stdin", "LOCAL_RANK", integer(o.stdin_local_rank, 0, limits::kWorkersPerNode - 1),
          "Connect the launcher's standard input to this worker. [default: a terminal to the only worker, if there "
          "is one worker; otherwise none]");
}

void rendezvous(OptionSet& c, Options& o) {
  c.group("Rendezvous");
  c.flag("--standalone", o.standalone, "Run on this node alone, with a free port and a new run id.");
  c.value("--rdzv-backend", "NAME:{static,c10d,...}", parsed_as(parse_rendezvous_backend, o.rdzv_backend),
          "Choose how the nodes meet. [default: c10d; static when invoked as torchrun]");
  c.value("--rdzv-endpoint", "HOST[:PORT]", parsed_as(parse_endpoint, o.rdzv_endpoint),
          "Meet at this address; write [ADDRESS]:PORT for IPv6, and port 0 for a free port.");
  c.value("--rdzv-id", "ID", parsed_as(parse_run_id, o.run_id),
          "Name the run (TORCHELASTIC_RUN_ID). [default: a random name]");
  // torchrun passes keys that it does not know to the backend, which ignores them.
  const auto parse_settings =
      o.compatibility_mode == CompatibilityMode::native
          ? +[](const std::string& t) { return parse_rendezvous_settings(t, UnknownKeys::refused); }
          : +[](const std::string& t) { return parse_rendezvous_settings(t, UnknownKeys::kept); };
  c.value("--rdzv-conf", "KEY=VALUE,...", parsed_as(parse_settings, o.rdzv_conf),
          "Set properties of the rendezvous: timeout, join_timeout, last_call_timeout, close_timeout, "
          "heartbeat_timeout, read_timeout, keep_alive_interval, keep_alive_max_attempt, is_host, store_type, rank.");
  c.value("--master-addr", "HOST", some_text(o.master_addr, "the address of node 0"),
          "Use this address of node 0 (static rendezvous).");
  c.value("--master-port", "PORT", integer<std::uint16_t>(o.master_port, 0, 65'535),
          "Use this port of node 0 (static rendezvous); 0 takes a free port.");
  c.value("--local-addr", "HOST", some_text(o.local_addr, "an address of this node"),
          "Announce this address of the node to the other nodes.");
  declare_store_access(c, o.auth_token_file, o.store_open, o.store_limits);
}

void devices(OptionSet& c, Options& o) {
  c.group("Devices");
  c.value("--gpus", "LIST", text(o.gpus),
          "Use these GPUs: indices, UUIDs or MIG names, separated by commas. [default: all visible GPUs]");
  c.choice_of<DeviceVisibility>("--device-visibility", "WHICH", o.device_visibility,
                                "Show each worker its own GPU only (own), or all GPUs, among which LOCAL_RANK selects "
                                "(all). [default: own for native programs; all for Python scripts and as torchrun]");
  c.flag("--virtual-local-rank", o.virtual_local_rank,
         "Show each worker its own GPU only and set LOCAL_RANK to 0 for all of them.");
  c.flag("--oversubscribe", o.oversubscribe, "Allow more workers than GPUs; workers then share GPUs.");
  c.choice_of<NumaBinding>("--numa-binding", "HOW", o.numa_binding,
                           "Bind each worker to the CPUs and the memory near its GPU.")
      ->envname("");
  c.choice("--backend", "NAME", "cpu gloo nccl mpi", text(o.backend),
           "Choose the backend of the runtime (DDP_BACKEND); of several, separated by commas, the first that works is "
           "used. [default: nccl if each rank has a GPU, else cpu]",
           true);
}

// Programs may change their working directory.
Take absolute_path(std::string& target) {
  return [&target](const std::string& value) {
    if (value.empty()) return Mistake(" is empty. Name a directory.");
    std::error_code ignored;
    target = std::filesystem::absolute(value, ignored).lexically_normal().string();
    return Mistake();
  };
}

void supervision(OptionSet& c, Options& o) {
  c.group("Supervision");
  c.implies(c.choice_of<Check>("--check", "HOW", o.check,
                               "Check all nodes before the first worker starts, as ddplaunch doctor does (quick, if "
                               "no value is given), or with its --deep (deep). A node that fails is left out if "
                               "--nnodes=MIN:MAX allows it. [default: off]"),
            "quick");
  c.value("--max-restarts", "N", integer(o.max_restarts, 0, kMost),
          "Restart all workers up to this many times after a failure. [default: 0]");
  c.value(
      "--image-cost", "PERCENT", parsed_as(parse_percent, o.image_cost),
      "Let programs that keep their state in memory copy it regularly, for the case that all ranks die at once. The "
      "copies take at most this share of the time, such as 1%. 0 makes none. [default: 0]");
  c.value("--image-dir", "DIR", absolute_path(o.image_dir),
          "Write what programs keep in memory to this directory, which all nodes share. A job that finds images there "
          "goes on from the newest one. [default: none]");
  c.value("--grace,--shutdown-timeout", "SECONDS", parsed_as(parse_seconds, o.grace),
          "Wait this long between SIGTERM and SIGKILL when workers are terminated, and after Ctrl-C between SIGINT and "
          "SIGTERM. [default: 5; when invoked as torchrun, TORCH_ELASTIC_SHUTDOWN_TIMEOUT or 30]");
  c.value("--save-grace", "SECONDS", parsed_as(parse_seconds, o.save_grace),
          "When one of --save-signals arrives, ask the program to save and to leave (should_stop()), and terminate it "
          "after this long. 0 disables the request. [default: 0]");
  c.value(
      "--save-signals", "NAMES", parsed_as(parse_signals, o.save_signals),
      "Ask the program to save when one of these signals arrives; separate them by commas. [default: SIGTERM,SIGUSR1]");
  c.value("--save-file", "FILE", some_text(o.save_file, "a file"),
          "Ask the program to save when this file appears, too.");
  c.value("--save-command", "COMMAND", some_text(o.save_command, "a command"),
          "Ask the program to save when this shell command, which is run every 5 s, exits with 0, too.");
  c.flag("--let-finish", o.let_finish,
         "After success, wait for processes that the workers have left running. [default: terminate them]");
  c.value("--exit-timeout", "SECONDS", parsed_as(parse_seconds, o.exit_timeout),
          "Terminate the job if ranks still run this long after another rank exited with 0. 0 disables the check. "
          "[default: 0]");
  c.value("--hang-timeout", "SECONDS", parsed_as(parse_seconds, o.hang_timeout),
          "Terminate the job if a rank that others wait for makes no progress for this long. 0 disables hang "
          "detection. [default: report hangs; terminate after 30 minutes without any sign of life]");
  c.choice_of<HangLimit>(
      "--hang-limit", "KIND", o.hang_limit,
      "Terminate the job after 20 times its longest pause so far without a sign of life, too (learnt). "
      "[default: fixed]");
  c.choice_of<HangAction>(
      "--hang-action", "WHAT", o.hang_action,
      "Terminate a job that hangs after a dump of all stacks (kill), only dump the stacks (dump), or "
      "only report it (warn). [default: kill]");
  c.flag("--fallback", o.fallback,
         "If the job has hung because GPUs cannot write to each other, start it again. Its data then go through host "
         "memory (NCCL_P2P_DISABLE=1). [default: only say so]");
  c.value(
       "--inject", "FAULT",
       [&o](const std::string& text) {
         // One value may have several faults, separated by spaces, for use in configuration files.
         if (const auto faults = wire::parse_faults(text); !faults) return Mistake(": " + faults.error().message);
         o.faults.push_back(text);
         return Mistake();
       },
       "Inject a fault, such as rank=2,at=all_reduce:100,kind=stop, to test how the job is handled. Kinds: stop, skip, "
       "swap, shape, dtype, kill, exit0, delay=5s, mutex, spin. May be repeated.")
      ->take_all();
  c.value("--signals-to-handle", "NAMES", parsed_as(parse_signals, o.ending_signals),
          "Terminate the job when one of these signals arrives; separate them by commas. [default: "
          "SIGTERM,SIGINT,SIGHUP; as torchrun also SIGQUIT, which otherwise reports what all ranks do]");
  c.choice_of<CoreDumps>("--core", "LIMIT", o.core,
                         "Set the limit of the workers' core dumps (RLIMIT_CORE). [default: inherit]");
}

void console_and_files(OptionSet& c, Options& o) {
  c.group("Output");
  c.value(
      "--log-dir", "DIR", some_text(o.log_dir, "a directory"),
      "Write the workers' output and error files to this directory (when invoked as torchrun, only what "
      "--redirects and --tee name); /dev/null writes no files. [default: error files only, in a temporary directory]");
  c.value("-r,--redirects", "STREAMS", parsed_as(parse_streams, o.redirects),
          "Write output to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both, or per local rank, such "
          "as 0:1,1:3. [default: 0]");
  c.value("-t,--tee", "STREAMS", parsed_as(parse_streams, o.tee),
          "Write output to files and the console; values as for --redirects. [default: 0]");
  c.value("--local-ranks-filter", "RANKS", parsed_as(parse_local_ranks, o.console_local_ranks),
          "Show only the output of these local ranks on the console, such as 0,1. Files are not affected.");
  c.value("--duplicate-stdout-filters", "TEXTS", parsed_as(parse_filters, o.stdout_filters),
          "Copy stdout lines that contain one of these texts to a filtered file, too; separate texts by commas, and "
          "write ,, for a comma.");
  c.value("--duplicate-stderr-filters", "TEXTS", parsed_as(parse_filters, o.stderr_filters),
          "Copy stderr lines that contain one of these texts to a filtered file, too.");
  c.value("--tag,--no-tag", "TEMPLATE", parsed_as(parse_tag, o.tag),
          "Start each console line with this text, whose fields are ${rank}, ${local_rank}, ${node}, ${role} and "
          "${time}; empty prints none. [default: '[${rank}] ' for several ranks]");
  c.flag("--collapse,--no-collapse", using_value([&o](const std::string& on) { o.collapse = on == "1"; }),
         "Show a line that several ranks print within 200 ms only once. [default: on for several workers]");
  c.flag("--gather-output", o.gather_output,
         "Show the output of the workers of all nodes at the first node's launcher.");
  c.flag("--lossless", o.lossless, "Slow the workers down if the console is too slow, instead of dropping lines.");
  c.choice("--on-sigpipe", "WHAT", "ignore end",
           using_value([&o](const std::string& what) { o.end_on_closed_console = what == "end"; }),
           "Choose what happens if the reader of the launcher's output exits. [default: ignore]");
  c.choice_of<Color>(
      "--color", "WHEN", o.color,
      "Choose when to print colours; auto prints them to a terminal unless NO_COLOR is set. [default: auto]");
}

void views(OptionSet& c, Options& o) {
  c.group("Views of the job");
  c.flag("--live", o.live, "Show the ranks on the terminal, below the output; ddplaunch top shows them elsewhere.");
  c.flag("--progress-line,--no-progress-line",
         using_value([&o](const std::string& on) { o.progress_line = on == "1"; }),
         "Show the progress that the program reports in a line below its output. [default: on for terminals]");
  c.value("--report", "FILE", some_text(o.report_file, "a file"),
          "Write a report of the run to this file as HTML, also after a failure; the first node writes it.");
  c.value(
      "--trace", "FILE", some_text(o.trace_file, "a file"),
      "Write a timeline of all ranks to this file for Perfetto, as JSON, or compressed if it ends in .gz; the first "
      "node writes it.");
  c.choice_of<Recording>(
      "--record", "WHAT", o.recording,
      "Choose what the workers record for reports and traces: nothing (off), steps, phases and a sample of the "
      "collectives (steps), or all of them (all). [default: steps]");
}

void reports(OptionSet& c, Options& o) {
  c.group("Reports");
  c.value("--summary", "FILE", some_text(o.summary_file, "a file"), "Write a summary of the run to this file as JSON.");
  c.value("--event-log", "FILE", some_text(o.event_log, "a file"),
          "Write every event of the run to this file, one line of JSON each.");
  declare_log_options(c, o.log);
  c.flag("--dry-run", o.dry_run, "Print the launch plan and exit.");
  // The benchmark and the doctor have their own --json.
  if (o.subcommand.empty()) c.flag("--json", o.json, "Print the plan of --dry-run as JSON.");
}

void information(OptionSet& c) {
  c.group("Configuration and information");
  c.value("--config", "FILE", accept,
          "Read options from this TOML, INI or JSON file; its keys are the names of the options.")
      ->envname("")
      ->configurable(false);
  c.choice("--completion", "SHELL", "bash zsh fish", accept, "Print the completions for a shell and exit.")
      ->envname("")
      ->configurable(false);
  c.flag("--man", accept, "Print the manual page (troff) and exit.")->envname("")->configurable(false);
  c.flag("-V,--version", accept, "Print the version and exit.")->envname("")->configurable(false);
  declare_help(c, "Print all options and exit; -h prints the most common ones.");
}

// These options are accepted so that command lines of torchrun work.
void for_torchrun(OptionSet& c) {
  c.group("Only for compatibility with torchrun");
  c.choice("--start-method", "HOW", "spawn fork forkserver", accept,
           "Accepted for compatibility with torchrun and ignored: workers are always separate processes.");
  c.value("--monitor-interval", "SECONDS", parsed(parse_seconds, [](auto) {}),
          "Accepted for compatibility with torchrun and ignored: ddplaunch does not poll.");
  c.choice("--event-log-handler", "NAME", "null console", accept,
           "Accepted for compatibility with torchrun and ignored: use --event-log.");
  c.value(
       "--logs-specs", "NAME",
       [](const std::string&) {
         return Mistake(
             " names Python code that lays out torchrun's logs, which ddplaunch cannot load. Use --log-dir, "
             "--redirects, --tee and --local-ranks-filter instead.");
       },
       "Refused: it names Python code. Use --log-dir, --redirects and --tee.")
      ->envname("");
}

// Describes an option that is accepted and changes nothing.
struct WithoutEffect {
  std::string_view option;
  std::string_view value;  // empty if any value matches
  const char* reason;
};

constexpr WithoutEffect kWithoutEffect[] = {
    {"monitor-interval", "", "ddplaunch does not poll; the kernel reports the exit of a worker at once"},
    {"start-method", "", "workers are always separate processes"},
    {"event-log-handler", "console", "use --event-log=FILE for a record of the run"},
    {"use-env", "1", "only ddplaunch launch passes --local_rank to the script"},
};

void warn_without_effect(std::span<const Setting> settings, Options& options) {
  for (const WithoutEffect& entry : kWithoutEffect) {
    const Setting* setting = last_of(settings, entry.option);
    if (setting == nullptr || (!entry.value.empty() && entry.value != setting->value)) continue;
    if (entry.option == "use-env" && options.compatibility_mode == CompatibilityMode::torch_launch) continue;
    options.warnings.push_back(setting->subject + " has no effect: " + entry.reason);
  }
  for (const char* name : {"save-signals", "save-file", "save-command"}) {
    const Setting* setting = last_of(settings, name);
    if (setting != nullptr && options.save_grace.count() == 0) {
      options.warnings.push_back(setting->subject + " has no effect without --save-grace=SECONDS");
    }
  }
  if (options.image_cost > 0 && options.max_restarts == 0 && options.image_dir.empty()) {
    options.warnings.emplace_back(
        "--image-cost has no effect without --max-restarts=N or --image-dir=DIR, because nothing would begin with "
        "the copies");
  }
}

}  // namespace

Options default_options(CompatibilityMode mode) {
  Options options;
  options.compatibility_mode = mode;
  if (mode != CompatibilityMode::native) {
    options.grace = kTorchrunGrace;
    options.ending_signals.push_back(SIGQUIT);
  }
  options.local_rank_argument = mode == CompatibilityMode::torch_launch;
  return options;
}

void declare_job_options(OptionSet& command, Options& options) {
  workers(command, options);
  program(command, options);
  rendezvous(command, options);
  devices(command, options);
  supervision(command, options);
  console_and_files(command, options);
  views(command, options);
  reports(command, options);
  information(command);
  for_torchrun(command);
}

void declare_options(OptionSet& c, DoctorOptions& o) {
  c.group("Options of the doctor");
  c.flag("--node", o.this_node, "Check this node alone, and not what is between the nodes of the job.")->envname("");
  c.value("--checkpoint-dir", "DIR", some_text(o.checkpoint_dir, "a directory"),
          "Check whether checkpoints can be written to this directory.")
      ->envname("");
  c.flag("--deep", o.deep,
         "Also prove that GPUs can write to each other's memory. It takes up to a minute, and some memory of each GPU.")
      ->envname("");
  c.flag("--strict", o.strict, "Exit with 1 if there is a warning.")->envname("");
  c.flag("--json", o.json, "Print the findings as one JSON document.")->envname("");
}

void declare_store_access(OptionSet& c, std::string& token_file, bool& open, store::StoreLimits& limits) {
  c.value("--auth-token-file", "FILE", some_text(token_file, "a file"),
          "Read the job's token, which admits the launchers of other nodes to the store, from this file; only you may "
          "be able to read it. [env: DDP_AUTH_TOKEN]");
  c.flag("--store-open", open, "Let every user and host that can reach the store use it, as torchrun does.");
  c.value(
       "--store-limit", "NAME=VALUE",
       [&limits](const std::string& text) { return store::set_store_limits(limits, text); },
       "Limit what the store grants: key-bytes, value-bytes, keys-per-request, request-bytes, table-bytes, keys, "
       "unsent-bytes, buffer-bytes, waiting-bytes, connections; sizes such as 64MiB. May be repeated.")
      ->take_all();
}

void declare_help(OptionSet& c, const char* help) {
  c.flag("-h,--help", accept, help)->envname("")->configurable(false);
}

std::optional<std::string> check_together(std::span<const Setting> settings, Options& options) {
  const std::pair<bool, const char*> conflicts[] = {
      {options.module && options.no_python,
       "--no-python and -m cannot be combined: a module needs Python. Leave one out."},
      {options.module && options.run_path,
       "--run-path and -m cannot be combined: a program is either a script or a module. Leave one out."},
      {options.no_python && options.local_rank_argument,
       "--no-python needs --use-env with ddplaunch launch: a program that is not a Python script gets no "
       "--local_rank argument. Add --use-env."},
      {!options.hosts.empty() && !options.host_file.empty(),
       "--hosts and --hostfile cannot be combined: each names all hosts of the job. Leave one out."},
      {options.json && !options.dry_run, "--json selects the format of --dry-run. Add --dry-run, or leave --json out."},
  };
  choose_log_level(settings, options.log);
  for (const auto& [is_given, message] : conflicts) {
    if (is_given) return message;
  }
  warn_without_effect(settings, options);
  if (options.no_python && options.run_path) {
    options.no_python = false;
    options.warnings.emplace_back("--no-python has no effect, because --run-path requires Python");
  }
  return std::nullopt;
}

OptionList job_options() {
  Options options;
  OptionSet command(true);
  declare_job_options(command, options);
  return command.options();
}

}  // namespace ddp::launcher
