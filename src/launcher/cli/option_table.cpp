#include "launcher/cli/option_table.h"

#include <algorithm>

#include "base/text.h"

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
    "did "
    "not end, 125: ddplaunch's own fault, 126: program not executable, 127: program not found, 130: Ctrl-C, 143: "
    "SIGTERM.";

namespace {

using enum OptionKind;
using enum OptionGroup;

// One option, one block.
// clang-format off
const OptionTable kOptions = {
    {.name = "nproc-per-node", .value_name = "N", .choices = "auto gpu cpu", .choices_are_examples = true,
     .group = workers, .of_torchrun = true,
     .help = "Workers: a number, auto, gpu (one a GPU) or cpu (one a CPU). Default: one a visible GPU, 1 without "
             "GPUs; as torchrun: 1."},
    {.name = "nnodes", .value_name = "N|MIN:MAX", .group = workers, .of_torchrun = true,
     .help = "Nodes of the job, the same on all of them. Default: 1."},
    {.name = "node-rank", .value_name = "N", .group = workers, .of_torchrun = true,
     .help = "Which of the nodes this is, from 0. Default: as they meet."},
    {.name = "engine", .value_name = "NAME", .group = workers,
     .help = "What started this launcher and says how many nodes there are: auto, none, slurm, openmpi and others. Default: auto."},
    {.name = "node-timeout", .value_name = "SECONDS", .group = workers,
     .help = "A node without a word for so long is lost. Default: 10."},
    {.name = "role", .value_name = "NAME", .group = workers, .of_torchrun = true,
     .help = "Role of the workers (ROLE_NAME). Default: default."},
    {.name = "hosts", .value_name = "HOST[:N],...", .group = workers,
     .help = "Start a launcher on each of these hosts over ssh, with N workers, as a,b:4,node[1-3]."},
    {.name = "hostfile", .value_name = "FILE", .group = workers,
     .help = "The same, with the hosts of a file: lines as host, host:4 or host slots=4."},
    {.name = "ssh", .value_name = "COMMAND", .group = workers,
     .help = "The ssh program and its options, separated by blanks, as 'ssh -p 2222'. Default: ssh."},
    {.name = "remote-launcher", .value_name = "PATH", .group = workers,
     .help = "Where ddplaunch is on the hosts. Default: where it is here."},
    {.name = "forward-env", .repeatable = true, .value_name = "NAMES", .group = workers,
     .help = "More variables for the hosts, separated by commas: NAME, NAME* or NAME=value. May be repeated."},

    {.name = "module", .short_name = 'm', .kind = flag, .group = program, .of_torchrun = true,
     .help = "The program is the name of a Python module."},
    {.name = "no-python", .kind = flag, .group = program, .of_torchrun = true,
     .help = "Execute the program as it is, also when it is a .py file."},
    {.name = "run-path", .kind = flag, .group = program, .of_torchrun = true,
     .help = "The program is a Python script, whatever its name."},
    {.name = "use-env", .kind = flag, .group = program, .of_torchrun = true,
     .help = "With ddplaunch launch (as torch.distributed.launch): the script gets no --local_rank argument and "
             "reads LOCAL_RANK."},
    {.name = "start-method", .value_name = "HOW", .choices = "spawn fork forkserver", .group = program,
     .of_torchrun = true,
     .help = "Accepted for torchrun's sake; no effect: workers are always separate processes."},
    {.name = "stdin", .value_name = "LOCAL_RANK", .group = program,
     .help = "This worker reads our standard input. Default: none does."},

    {.name = "standalone", .kind = flag, .group = rendezvous, .of_torchrun = true,
     .help = "One node, a free port, a fresh run id."},
    {.name = "rdzv-backend", .value_name = "NAME", .choices = kNamesOf<RdzvBackend>, .choices_are_examples = true,
     .group = rendezvous, .of_torchrun = true,
     .help = "How nodes meet: static or c10d."},
    {.name = "rdzv-endpoint", .value_name = "HOST[:PORT]", .group = rendezvous, .of_torchrun = true,
     .help = "Where nodes meet; [ADDRESS]:PORT for IPv6. Port 0: a free one."},
    {.name = "rdzv-id", .value_name = "ID", .group = rendezvous, .of_torchrun = true,
     .help = "Name of this run (TORCHELASTIC_RUN_ID). Default: a random one."},
    {.name = "rdzv-conf", .value_name = "KEY=VALUE,...", .group = rendezvous, .of_torchrun = true,
     .help = "Settings of the rendezvous: timeout, join_timeout, last_call_timeout, close_timeout, "
             "heartbeat_timeout, read_timeout, keep_alive_interval, keep_alive_max_attempt, is_host, store_type, "
             "rank."},
    {.name = "master-addr", .value_name = "HOST", .group = rendezvous, .of_torchrun = true,
     .help = "Address of node 0, with the static backend."},
    {.name = "master-port", .value_name = "PORT", .group = rendezvous, .of_torchrun = true,
     .help = "Port of node 0, with the static backend; 0: a free one."},
    {.name = "local-addr", .value_name = "HOST", .group = rendezvous, .of_torchrun = true,
     .help = "Address of this node that the others are told."},
    {.name = "auth-token-file", .value_name = "FILE", .group = rendezvous, .in_full = true,
     .help = "The job's token, by which the launchers of other machines prove to the store that they belong to it; a "
             "file that only you can read. Or the variable DDP_AUTH_TOKEN."},
    {.name = "store-open", .kind = flag, .group = rendezvous,
     .help = "Let everybody use the store, from wherever it can be reached, as torchrun does."},
    {.name = "store-limit", .repeatable = true, .value_name = "NAME=VALUE", .group = rendezvous,
     .help = "What the store grants: key-bytes, value-bytes, keys-per-request, request-bytes, table-bytes, keys, "
             "unsent-bytes, buffer-bytes, waiting-bytes, connections; sizes as 64MiB. May be repeated."},

    {.name = "gpus", .value_name = "LIST", .group = devices,
     .help = "GPUs to use: indices, UUIDs or MIG names, separated by commas. Default: all visible ones."},
    {.name = "device-visibility", .value_name = "WHICH", .choices = kNamesOf<DeviceVisibility>, .group = devices,
     .help = "own: each worker sees its GPU only; all: every worker sees all of them and LOCAL_RANK selects. "
             "Default: own for native programs, all for Python scripts and as torchrun."},
    {.name = "virtual-local-rank", .kind = flag, .group = devices, .of_torchrun = true,
     .help = "LOCAL_RANK is 0 for every worker, and each sees its GPU only."},
    {.name = "oversubscribe", .kind = flag, .group = devices,
     .help = "Allow more workers than GPUs; they share."},
    {.name = "numa-binding", .value_name = "HOW", .choices = kNamesOf<NumaBinding>, .group = devices,
     .sources = OptionSources::no_variable, .of_torchrun = true,
     .help = "Bind each worker to CPUs and memory near its GPU."},
    {.name = "backend", .value_name = "NAME", .choices = "cpu gloo nccl mpi", .several_choices = true, .group = devices,
     .help = "Backend of the runtime (DDP_BACKEND). Several, as nccl,gloo: the first that works. Default: nccl with a GPU for each rank, else cpu."},

    {.name = "max-restarts", .value_name = "N", .group = supervision, .of_torchrun = true,
     .help = "How often all workers are started again after a failure. Default: 0."},
    {.name = "grace", .second_name = "shutdown-timeout", .value_name = "SECONDS", .group = supervision,
     .of_torchrun = true,
     .help = "Time between SIGTERM and SIGKILL when workers are ended. Default: 5; as torchrun: "
             "TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else 30."},
    {.name = "exit-timeout", .value_name = "SECONDS", .group = supervision,
     .help = "Terminate the job if others still run this long after a rank has ended with 0. 0: off. Default: 0."},
    {.name = "hang-timeout", .value_name = "SECONDS", .group = supervision,
     .help = "Terminate the job this long after a rank that the others wait for made its last progress. Default: hangs "
             "are reported; only a rank that shows no sign of life for 30 minutes ends the job. 0: no reports either."},
    {.name = "hang-limit", .value_name = "KIND", .choices = kNamesOf<HangLimit>, .group = supervision,
     .help = "Whether 20 times the longest pause of the job so far without a sign of life ends it, too (learnt). "
             "Default: fixed."},
    {.name = "hang-action", .value_name = "WHAT", .choices = kNamesOf<HangAction>, .group = supervision,
     .help = "What is done to a job that hangs: it is terminated after a dump of all stacks (kill), it is left alone "
             "after one (dump), or only reported (warn). Default: kill."},
    {.name = "inject", .repeatable = true, .value_name = "FAULT", .group = supervision,
     .help = "Something goes wrong on purpose, as rank=2,at=all_reduce:100,kind=stop, to prove what is done about it. "
             "Kinds: stop, skip, swap, shape, dtype, kill, exit0, delay=5s, mutex, spin."},
    {.name = "signals-to-handle", .value_name = "NAMES", .group = supervision, .of_torchrun = true,
     .help = "Signals to ddplaunch that end the job, separated by commas. Default: SIGTERM,SIGINT,SIGHUP; as "
             "torchrun SIGQUIT, too, which else tells what all ranks are at."},
    {.name = "core", .value_name = "LIMIT", .choices = kNamesOf<CoreDumps>, .group = supervision,
     .help = "Core dumps of the workers (RLIMIT_CORE). Default: inherit."},
    {.name = "monitor-interval", .value_name = "SECONDS", .group = supervision, .of_torchrun = true,
     .help = "Accepted for torchrun's sake; no effect: ddplaunch does not poll."},

    {.name = "log-dir", .value_name = "DIR", .group = output, .of_torchrun = true,
     .help = "Folder of the workers' files: all output (as torchrun: what --redirects and --tee name) and error "
             "files. /dev/null: no files at all. Default: error files only, in a temporary one."},
    {.name = "redirects", .short_name = 'r', .value_name = "STREAMS", .group = output, .of_torchrun = true,
     .help = "Output that goes to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both, or by local "
             "rank as 0:1,1:3. Default: 0."},
    {.name = "tee", .short_name = 't', .value_name = "STREAMS", .group = output, .of_torchrun = true,
     .help = "The same, to files and the console."},
    {.name = "local-ranks-filter", .value_name = "RANKS", .group = output, .of_torchrun = true,
     .help = "Only these local ranks are shown on the console, as 0,1. Files are not affected."},
    {.name = "duplicate-stdout-filters", .value_name = "TEXTS", .group = output, .of_torchrun = true,
     .help = "Lines with one of these texts, separated by commas (,, is a comma), go to a second, filtered file "
             "too."},
    {.name = "duplicate-stderr-filters", .value_name = "TEXTS", .group = output, .of_torchrun = true,
     .help = "The same for the standard error."},
    {.name = "tag", .negatable = true, .value_name = "TEMPLATE", .group = output,
     .help = "Mark before each line on the console, with the fields ${rank}, ${local_rank}, ${node}, ${role} and "
             "${time}; empty: none. Default: '[${rank}] ' for several workers."},
    {.name = "collapse", .kind = flag, .negatable = true, .group = output,
     .help = "Show a line that several ranks print within 200 ms once. Default for several workers."},
    {.name = "gather-output", .kind = flag, .group = output,
     .help = "Of several nodes: what the workers of all of them print is shown by the first node's launcher."},
    {.name = "lossless", .kind = flag, .group = output,
     .help = "A console that is too slow slows the workers down, instead of losing lines."},
    {.name = "on-sigpipe", .value_name = "WHAT", .choices = "ignore end", .group = output,
     .help = "When nobody reads our output any more: ignore it, or end the job. Default: ignore."},
    {.name = "color", .value_name = "WHEN", .choices = kNamesOf<Color>, .group = output,
     .help = "Colours in the tags. auto: in a terminal, unless NO_COLOR is set. Default: auto."},
    {.name = "logs-specs", .value_name = "NAME", .group = output, .sources = OptionSources::no_variable,
     .of_torchrun = true,
     .help = "Refused: names Python code that lays out torchrun's logs. Use --log-dir, --redirects and --tee."},

    {.name = "summary", .value_name = "FILE", .group = reports,
     .help = "Write what became of the run as JSON."},
    {.name = "event-log", .value_name = "FILE", .group = reports,
     .help = "Write every event of the run as a line of JSON."},
    {.name = "event-log-handler", .value_name = "NAME", .choices = "null console", .group = reports,
     .of_torchrun = true,
     .help = "Accepted for torchrun's sake; console has no effect: use --event-log."},
    {.name = "quiet", .short_name = 'q', .kind = flag, .group = reports,
     .help = "No line of ours unless something goes wrong."},
    {.name = "dry-run", .kind = flag, .group = reports,
     .help = "Print the launch plan and exit."},
    {.name = "json", .kind = flag, .group = reports,
     .help = "With --dry-run: print it as JSON."},

    {.name = "config", .value_name = "FILE", .sources = OptionSources::command_line,
     .help = "Read options from a TOML, INI or JSON file; its keys are their names."},
    {.name = "completion", .value_name = "SHELL", .choices = "bash zsh fish", .sources = OptionSources::command_line,
     .help = "Print the completions for a shell and exit."},
    {.name = "man", .kind = flag, .sources = OptionSources::command_line,
     .help = "Print the manual page (troff) and exit."},
    {.name = "version", .kind = flag, .sources = OptionSources::command_line,
     .help = "Print the version and exit."},
    {.name = "help", .short_name = 'h', .kind = flag, .sources = OptionSources::command_line, .of_torchrun = true,
     .help = "Print this text and exit."},
};
// clang-format on

const std::vector<OptionGroupTitle> kGroups = {
    {workers, "Workers and nodes"}, {program, "Program"},
    {rendezvous, "Rendezvous"},     {devices, "Devices"},
    {supervision, "Supervision"},   {output, "Output"},
    {reports, "Reports"},           {information, "Configuration and information"},
};

}  // namespace

const OptionTable& option_table() {
  return kOptions;
}

const std::vector<OptionGroupTitle>& option_groups() {
  return kGroups;
}

std::string with_dashes(std::string_view name) {
  std::string dashes(name);
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  return dashes;
}

const OptionSpec* find_option(std::string_view name, const OptionTable& table) {
  const std::string wanted = with_dashes(name);
  for (const OptionSpec& option : table) {
    const std::vector<std::string> names = names_of(option);
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return &option;
  }
  return nullptr;
}

const OptionSpec* find_option(char short_name, const OptionTable& table) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const OptionSpec& option) {
    return option.short_name != '\0' && option.short_name == short_name;
  });
  return found == table.end() ? nullptr : &*found;
}

bool is_negation(const OptionSpec& option, std::string_view name) {
  return option.negatable && with_dashes(name) == "no-" + std::string(option.name);
}

std::vector<std::string> names_of(const OptionSpec& option) {
  std::vector<std::string> names{std::string(option.name)};
  if (!option.second_name.empty()) names.emplace_back(option.second_name);
  if (option.negatable) names.push_back("no-" + std::string(option.name));
  return names;
}

std::vector<std::string> choices_of(const OptionSpec& option) {
  return option.choices.empty() ? std::vector<std::string>{} : base::split(option.choices, ' ');
}

std::string variable_of(std::string_view option_name) {
  std::string name = "PET_";
  for (const char c : option_name) {
    name += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return name;
}

}  // namespace ddp::launcher
