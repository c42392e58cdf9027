#include "launcher/cli/job_options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <tuple>

#include "base/text.h"
#include "launcher/cli/log_options.h"
#include "launcher/cli/values.h"
#include "store/server/store_limits.h"
#include "wire/fault.h"

namespace ddp::launcher {

const char* const kDescription =
    "Starts one worker process per GPU (or as many as you say), gives each its rank and a rendezvous store, and ends "
    "all of them when one fails.";

const char* const kProgramRule =
    "Options come before the program; everything after it belongs to the program. Options of several words may be "
    "spelt with dashes or underscores, and take --name value or --name=value; the last one given wins. What the "
    "command line does not say is looked up in PET_<NAME> variables (PET_NPROC_PER_NODE), then in --config.";

const char* const kExitCodes =
    "The exit code is that of the rank that failed first (128 + n for signal n); 2: usage, 124: the job hung or ranks "
    "did not end, 125: ddplaunch's own fault, 126: program not executable, 127: program not found, 130: Ctrl-C, 143: "
    "SIGTERM.";

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

template <typename Choice, typename T>
CLI::Option* choice(OptionSet& c, const char* name, const char* value_name, T& target, const char* help) {
  const auto take = using_value([&target, known = base::split(kNamesOf<Choice>, ' ')](const std::string& value) {
    target = static_cast<Choice>(std::ranges::find(known, value) - known.begin());
  });
  return c.choice(name, value_name, kNamesOf<Choice>, take, help);
}

constexpr int kMost = 1'000'000;

void workers(OptionSet& c, Options& o) {
  c.group("Workers and nodes");
  c.value("--nproc-per-node", "N:{auto,gpu,cpu,...}", parsed_as(parse_workers, o.nproc_per_node),
          "Workers: a number, auto, gpu (one a GPU) or cpu (one a CPU). Default: one a visible GPU, 1 without "
          "GPUs; as torchrun: 1.");
  c.value("--nnodes", "N|MIN:MAX",
          parsed(parse_nodes, [&o](const auto& nodes) { std::tie(o.min_nodes, o.max_nodes) = nodes; }),
          "Nodes of the job, the same on all of them. Default: 1.");
  c.value("--node-rank", "N", integer(o.node_rank, 0, kMost),
          "Which of the nodes this is, from 0. Default: as they meet.");
  c.value("--scheduler", "NAME", parsed_as(parse_scheduler, o.scheduler),
          "What started this launcher and says how many nodes there are: auto, none, slurm, openmpi and others. "
          "Default: auto.");
  c.keep_old_name("engine", "scheduler");
  c.value("--node-timeout", "SECONDS", parsed_as(parse_node_timeout, o.node_timeout),
          "A node without a word for so long is lost. Default: 10.");
  c.value("--role", "NAME", some_text(o.role, "the role"), "Role of the workers (ROLE_NAME). Default: default.");
  c.value("--hosts", "HOST[:N],...", parsed_as(parse_host_words, o.hosts),
          "Start a launcher on each of these hosts over ssh, with N workers, as a,b:4,node[1-3].");
  c.value("--hostfile", "FILE", some_text(o.host_file, "a file"),
          "The same, with the hosts of a file: lines as host, host:4 or host slots=4.");
  c.value("--ssh", "COMMAND", parsed_as(parse_program, o.ssh),
          "The ssh program and its options, separated by spaces, as 'ssh -p 2222'. Default: ssh.");
  c.value("--remote-launcher", "PATH", some_text(o.remote_launcher, "a path"),
          "Where ddplaunch is on the hosts. Default: where it is here.");
  c.value("--forward-env", "NAMES",
          parsed(parse_forwarded, [&o](const auto& names) { base::append(o.forwarded, names); }),
          "More variables for the hosts, separated by commas: NAME, NAME* or NAME=value. May be repeated.")
      ->take_all();
}

void program(OptionSet& c, Options& o) {
  c.group("Program");
  c.flag("-m,--module", o.module, "The program is the name of a Python module.");
  c.flag("--no-python", o.no_python, "Execute the program as it is, also when it is a .py file.");
  c.flag("--run-path", o.run_path, "The program is a Python script, whatever its name.");
  c.flag("--use-env", using_value([&o](const std::string& on) {
           o.local_rank_argument = o.compatibility_mode == CompatibilityMode::torch_launch && on == "0";
         }),
         "With ddplaunch launch (as torch.distributed.launch): the script gets no --local_rank argument and "
         "reads LOCAL_RANK.");
  c.choice("--start-method", "HOW", "spawn fork forkserver", accept,
           "Accepted for torchrun's sake; no effect: workers are always separate processes.");
  c.value("--stdin", "LOCAL_RANK", integer(o.stdin_local_rank, 0, limits::kWorkersPerNode - 1),
          "This worker reads our standard input. Default: none does.");
}

void rendezvous(OptionSet& c, Options& o) {
  c.group("Rendezvous");
  c.flag("--standalone", o.standalone, "One node, a free port, a fresh run id.");
  c.value("--rdzv-backend", "NAME:{static,c10d,...}", parsed_as(parse_rendezvous_backend, o.rdzv_backend),
          "How nodes meet: static or c10d.");
  c.value("--rdzv-endpoint", "HOST[:PORT]", parsed_as(parse_endpoint, o.rdzv_endpoint),
          "Where nodes meet; [ADDRESS]:PORT for IPv6. Port 0: a free one.");
  c.value("--rdzv-id", "ID", parsed_as(parse_run_id, o.run_id),
          "Name of this run (TORCHELASTIC_RUN_ID). Default: a random one.");
  // torchrun hands keys that it does not know to the backend, which ignores them.
  const auto parse_settings =
      o.compatibility_mode == CompatibilityMode::native
          ? +[](const std::string& t) { return parse_rendezvous_settings(t, UnknownKeys::refused); }
          : +[](const std::string& t) { return parse_rendezvous_settings(t, UnknownKeys::kept); };
  c.value("--rdzv-conf", "KEY=VALUE,...", parsed_as(parse_settings, o.rdzv_conf),
          "Settings of the rendezvous: timeout, join_timeout, last_call_timeout, close_timeout, "
          "heartbeat_timeout, read_timeout, keep_alive_interval, keep_alive_max_attempt, is_host, store_type, "
          "rank.");
  c.value("--master-addr", "HOST", some_text(o.master_addr, "the address of node 0"),
          "Address of node 0, with the static backend.");
  c.value("--master-port", "PORT", integer<std::uint16_t>(o.master_port, 0, 65'535),
          "Port of node 0, with the static backend; 0: a free one.");
  c.value("--local-addr", "HOST", some_text(o.local_addr, "an address of this node"),
          "Address of this node, as the other nodes get it.");
  declare_store_access(c, o.auth_token_file, o.store_open, o.store_limits);
}

void devices(OptionSet& c, Options& o) {
  c.group("Devices");
  c.value("--gpus", "LIST", text(o.gpus),
          "GPUs to use: indices, UUIDs or MIG names, separated by commas. Default: all visible ones.");
  choice<DeviceVisibility>(
      c, "--device-visibility", "WHICH", o.device_visibility,
      "own: each worker sees its GPU only; all: every worker sees all of them and LOCAL_RANK selects. "
      "Default: own for native programs, all for Python scripts and as torchrun.");
  c.flag("--virtual-local-rank", o.virtual_local_rank, "LOCAL_RANK is 0 for every worker, and each sees its GPU only.");
  c.flag("--oversubscribe", o.oversubscribe, "Allow more workers than GPUs; they share.");
  choice<NumaBinding>(c, "--numa-binding", "HOW", o.numa_binding, "Bind each worker to CPUs and memory near its GPU.")
      ->envname("");
  c.choice("--backend", "NAME", "cpu gloo nccl mpi", text(o.backend),
           "Backend of the runtime (DDP_BACKEND). Several, as nccl,gloo: the first that works. Default: nccl with a "
           "GPU for each rank, else cpu.",
           true);
}

void supervision(OptionSet& c, Options& o) {
  c.group("Supervision");
  c.value("--max-restarts", "N", integer(o.max_restarts, 0, kMost),
          "How often all workers are started again after a failure. Default: 0.");
  c.value("--grace,--shutdown-timeout", "SECONDS", parsed_as(parse_seconds, o.grace),
          "Time between SIGTERM and SIGKILL when workers are ended, and after Ctrl-C between SIGINT and SIGTERM. "
          "Default: 5; as torchrun: TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else 30.");
  c.value(
      "--save-grace", "SECONDS", parsed_as(parse_seconds, o.save_grace),
      "When ddplaunch gets one of --save-signals, ask the program to save and to leave (should_stop()), and give it "
      "this long before the workers are ended. 0: off. Default: 0.");
  c.value("--save-signals", "NAMES", parsed_as(parse_signals, o.save_signals),
          "Signals that do so, separated by commas. Default: SIGTERM,SIGUSR1.");
  c.value("--save-file", "FILE", some_text(o.save_file, "a file"),
          "Ask the program to save and to leave as soon as this file exists, too.");
  c.value("--save-command", "COMMAND", some_text(o.save_command, "a command"),
          "Ask the program to save and to leave as soon as this command of the shell, which is run every 5 s, ends "
          "with 0, too.");
  c.flag("--let-finish", o.let_finish,
         "After success, wait for processes that the workers have left running. Default: they are terminated.");
  c.value("--exit-timeout", "SECONDS", parsed_as(parse_seconds, o.exit_timeout),
          "Terminate the job if others still run this long after a rank has ended with 0. 0: off. Default: 0.");
  c.value("--hang-timeout", "SECONDS", parsed_as(parse_seconds, o.hang_timeout),
          "Terminate the job this long after a rank that the others wait for made its last progress. Default: hangs "
          "are reported; only a rank that shows no sign of life for 30 minutes ends the job. 0: no reports either.");
  choice<HangLimit>(
      c, "--hang-limit", "KIND", o.hang_limit,
      "Whether 20 times the longest pause of the job so far without a sign of life ends it, too (learnt). "
      "Default: fixed.");
  choice<HangAction>(
      c, "--hang-action", "WHAT", o.hang_action,
      "What is done to a job that hangs: it is terminated after a dump of all stacks (kill), it is left alone "
      "after one (dump), or only reported (warn). Default: kill.");
  c.value(
       "--inject", "FAULT",
       [&o](const std::string& text) {
         // Several in one value, separated by spaces, are for configuration files.
         if (const auto faults = wire::parse_faults(text); !faults) return Mistake(": " + faults.error().message);
         o.faults.push_back(text);
         return Mistake();
       },
       "Something goes wrong on purpose, as rank=2,at=all_reduce:100,kind=stop, to prove what is done about it. "
       "Kinds: stop, skip, swap, shape, dtype, kill, exit0, delay=5s, mutex, spin.")
      ->take_all();
  c.value("--signals-to-handle", "NAMES", parsed_as(parse_signals, o.ending_signals),
          "Signals to ddplaunch that end the job, separated by commas. Default: SIGTERM,SIGINT,SIGHUP; as "
          "torchrun SIGQUIT, too, which else tells what all ranks are at.");
  choice<CoreDumps>(c, "--core", "LIMIT", o.core, "Core dumps of the workers (RLIMIT_CORE). Default: inherit.");
  c.value("--monitor-interval", "SECONDS", parsed(parse_seconds, [](auto) {}),
          "Accepted for torchrun's sake; no effect: ddplaunch does not poll.");
}

void console_and_files(OptionSet& c, Options& o) {
  c.group("Output");
  c.value("--log-dir", "DIR", some_text(o.log_dir, "a folder"),
          "Folder of the workers' files: all output (as torchrun: what --redirects and --tee name) and error "
          "files. /dev/null: no files at all. Default: error files only, in a temporary one.");
  c.value("-r,--redirects", "STREAMS", parsed_as(parse_streams, o.redirects),
          "Output that goes to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both, or by local "
          "rank as 0:1,1:3. Default: 0.");
  c.value("-t,--tee", "STREAMS", parsed_as(parse_streams, o.tee), "The same, to files and the console.");
  c.value("--local-ranks-filter", "RANKS", parsed_as(parse_local_ranks, o.console_local_ranks),
          "Only these local ranks are shown on the console, as 0,1. Files are not affected.");
  c.value("--duplicate-stdout-filters", "TEXTS", parsed_as(parse_filters, o.stdout_filters),
          "Lines with one of these texts, separated by commas (,, is a comma), go to a second, filtered file "
          "too.");
  c.value("--duplicate-stderr-filters", "TEXTS", parsed_as(parse_filters, o.stderr_filters),
          "The same for the standard error.");
  c.value("--tag,--no-tag", "TEMPLATE", parsed_as(parse_tag, o.tag),
          "Mark before each line on the console, with the fields ${rank}, ${local_rank}, ${node}, ${role} and "
          "${time}; empty: none. Default: '[${rank}] ' for several workers.");
  c.flag("--collapse,--no-collapse", using_value([&o](const std::string& on) { o.collapse = on == "1"; }),
         "Show a line that several ranks print within 200 ms once. Default for several workers.");
  c.flag("--gather-output", o.gather_output,
         "Of several nodes: what the workers of all of them print is shown by the first node's launcher.");
  c.flag("--lossless", o.lossless, "A console that is too slow slows the workers down, instead of losing lines.");
  c.choice("--on-sigpipe", "WHAT", "ignore end",
           using_value([&o](const std::string& what) { o.end_on_closed_console = what == "end"; }),
           "What happens if the reader of the launcher's output has gone: ignore it, or end the job. Default: ignore.");
  choice<Color>(c, "--color", "WHEN", o.color,
                "Colours in the tags. auto: in a terminal, unless NO_COLOR is set. Default: auto.");
  c.value(
       "--logs-specs", "NAME",
       [](const std::string&) {
         return Mistake(
             " names Python code that lays out torchrun's logs, which ddplaunch cannot load. Use --log-dir, "
             "--redirects, --tee and --local-ranks-filter instead.");
       },
       "Refused: names Python code that lays out torchrun's logs. Use --log-dir, --redirects and --tee.")
      ->envname("");
}

void reports(OptionSet& c, Options& o) {
  c.group("Reports");
  c.value("--summary", "FILE", some_text(o.summary_file, "a file"), "Write what became of the run as JSON.");
  c.value("--event-log", "FILE", some_text(o.event_log, "a file"), "Write every event of the run as a line of JSON.");
  c.choice("--event-log-handler", "NAME", "null console", accept,
           "Accepted for torchrun's sake; console has no effect: use --event-log.");
  declare_log_options(c, o.log);
  c.flag("--dry-run", o.dry_run, "Print the launch plan and exit.");
  // The benchmark has one of its own.
  if (!o.bench) c.flag("--json", o.json, "With --dry-run: print it as JSON.");
}

void information(OptionSet& c) {
  c.group("Configuration and information");
  c.value("--config", "FILE", accept, "Read options from a TOML, INI or JSON file; its keys are their names.")
      ->envname("")
      ->configurable(false);
  c.choice("--completion", "SHELL", "bash zsh fish", accept, "Print the completions for a shell and exit.")
      ->envname("")
      ->configurable(false);
  c.flag("--man", accept, "Print the manual page (troff) and exit.")->envname("")->configurable(false);
  c.flag("--version", accept, "Print the version and exit.")->envname("")->configurable(false);
  declare_help(c);
}

// Options that are understood and change nothing.
struct WithoutEffect {
  std::string_view option;
  std::string_view value;  // empty: any
  const char* reason;
};

constexpr WithoutEffect kWithoutEffect[] = {
    {"monitor-interval", "", "ddplaunch does not poll, it learns of a worker's end at once"},
    {"start-method", "", "workers are always separate processes"},
    {"event-log-handler", "console", "use --event-log=FILE for a record of the run"},
    {"use-env", "1", "only ddplaunch launch passes --local_rank to the script"},
};

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
  reports(command, options);
  information(command);
}

void declare_store_access(OptionSet& c, std::string& token_file, bool& open, store::StoreLimits& limits) {
  c.value("--auth-token-file", "FILE", some_text(token_file, "a file"),
          "The job's token, by which the launchers of other nodes prove to the store that they belong to it; a "
          "file that only you can read. Or the variable DDP_AUTH_TOKEN.");
  c.flag("--store-open", open, "Let everybody use the store, from wherever it can be reached, as torchrun does.");
  c.value(
       "--store-limit", "NAME=VALUE",
       [&limits](const std::string& text) { return store::set_store_limits(limits, text); },
       "What the store grants: key-bytes, value-bytes, keys-per-request, request-bytes, table-bytes, keys, "
       "unsent-bytes, buffer-bytes, waiting-bytes, connections; sizes as 64MiB. May be repeated.")
      ->take_all();
}

void declare_help(OptionSet& c) {
  c.flag("-h,--help", accept, "Print this text and exit.")->envname("")->configurable(false);
}

std::optional<std::string> check_together(std::span<const Setting> settings, Options& options) {
  choose_log_level(settings, options.log);
  for (const WithoutEffect& entry : kWithoutEffect) {
    const Setting* setting = last_of(settings, entry.option);
    if (setting == nullptr || (!entry.value.empty() && entry.value != setting->value)) continue;
    if (entry.option == "use-env" && options.compatibility_mode == CompatibilityMode::torch_launch) continue;
    options.warnings.push_back(setting->subject + " has no effect: " + entry.reason);
  }
  if (options.module && options.no_python) {
    return "--no-python and -m exclude one another: a module needs Python. Leave one out.";
  }
  if (options.module && options.run_path) {
    return "--run-path and -m exclude one another: is it a script or a module? Leave one out.";
  }
  if (options.no_python && options.local_rank_argument) {
    return "--no-python needs --use-env with ddplaunch launch: a program that is not a Python script gets no "
           "--local_rank argument. Add --use-env.";
  }
  if (!options.hosts.empty() && !options.host_file.empty()) {
    return "--hosts and --hostfile exclude one another: each names all hosts of the job. Leave one out.";
  }
  for (const char* name : {"save-signals", "save-file", "save-command"}) {
    const Setting* setting = last_of(settings, name);
    if (setting != nullptr && options.save_grace.count() == 0) {
      options.warnings.push_back(setting->subject + " has no effect without --save-grace=SECONDS");
    }
  }
  if (options.json && !options.dry_run) return "--json is the form of --dry-run. Add --dry-run, or leave --json out.";
  if (options.no_python && options.run_path) {
    options.no_python = false;
    options.warnings.emplace_back("--no-python has no effect: --run-path asks for Python");
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
