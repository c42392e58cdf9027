#include "launcher/start/cli/subcommands.h"

#include <algorithm>
#include <array>

#include "bench/bench_options.h"
#include "launcher/start/cli/subcommand_options.h"

namespace ddp::launcher {
namespace {

constexpr const char* kTopDescription =
    "Shows a running job of this user on this node: its progress, and for each rank its state, its step, where its "
    "time goes and which ranks the others wait for. PID is the process id of its ddplaunch, and RUN_ID is the name of the "
    "run. Neither is needed if only one job is running. The key h lists the keys.";

constexpr const char* kTopExitCodes =
    "ddplaunch top exits with 0 when the user quits or the job has ended. Other codes: 2: wrong usage; 125: there is "
    "no such job, several jobs are running, or the job cannot be shown.";

constexpr const char* kLsDescription =
    "Lists the running jobs of this user on this node, which ddplaunch top can show: the process id of the ddplaunch, "
    "the name of the run, the ranks and nodes, the time since the start, the state, and the program. The state is "
    "starting, running or stalled, or says why the ddplaunch does not show its job.";

constexpr const char* kLsExitCodes =
    "ddplaunch ls exits with 0, also if no job is running. Other codes: 2: wrong usage; 125: DDP_SOCKET_DIR cannot be "
    "used.";

constexpr const char* kStoreDescription =
    "Serves a rendezvous store in the foreground until SIGTERM or Ctrl-C, for programs that ddplaunch did not start. "
    "With --inspect, prints which clients of a store wait for which keys; the store of a running job works, too. With "
    "--join, proves to a store on another node that this node belongs to the job.";

constexpr const char* kStoreExitCodes =
    "ddplaunch store exits with 0 after SIGTERM or Ctrl-C. Other codes: 2: wrong usage; 125: the store cannot listen, "
    "cannot be reached, refuses this node, or has exited.";

constexpr const char* kReportDescription =
    "Makes a report of a run from the file that --event-log has written, as one file of HTML. The run may have failed, "
    "and the file may be cut off; the report then says what is missing. Two event logs are compared, side by side.";

constexpr const char* kReportExitCodes =
    "ddplaunch report exits with 0 if the report is written. Other codes: 2: wrong usage; 125: the event log cannot be "
    "read, contains no event of the run, or the report cannot be written.";

constexpr const char* kExplainDescription =
    "Reads the logs of a job that failed, and says which rank failed first, why, and what to do. The logs may be of "
    "torchrun, srun, mpirun, Kubernetes or ddplaunch, with the lines of all ranks in one file or one file per rank. "
    "Dumps of PyTorch's flight recorder, event logs and hang traces are read, too. A directory stands for all files in "
    "it, and - for the standard input.";

constexpr const char* kExplainExitCodes =
    "ddplaunch explain exits with 0 if the cause is known for certain, and with 1 if it is not. Other codes: 2: wrong "
    "usage; 125: a file cannot be read.";

constexpr const char* kDoctorDescription =
    "Checks whether the nodes suit a job before it starts. Takes the options and the program of the job, as ddplaunch "
    "does, and starts one process per node instead. It looks at limits, memory, CPUs, the clock and the network, and at "
    "the GPUs, their driver, NCCL and its variables. Of several nodes, it tries the ports, large packets, clocks, names "
    "and the speed between them, and shows how they differ. Prints one line for each check (ok, unknown, warn or FAIL), "
    "and for each trouble what to do. Each check runs in a process of its own, so that nothing that hangs can hang the "
    "doctor.";

constexpr const char* kDoctorExitCodes =
    "ddplaunch doctor exits with 0 if no check fails, and with 2 if one does or the usage is wrong. With --strict, it "
    "exits with 1 if there is a warning. Other codes: 125: the findings cannot be printed.";

constexpr const char* kBenchDescription =
    "Measures collectives between the workers that the options start, and prints the columns of nccl-tests: the time "
    "in microseconds (median and minimum over the iterations of the slowest rank), algbw and busbw in GB/s. "
    "Operations: all_reduce broadcast all_gather reduce_scatter all_to_all. [default: all of them]";

// Returns the options of the benchmark itself.
OptionList bench_options() {
  bench::BenchOptions options;
  OptionSet command(false);
  bench::declare_bench_options(command.app(), options);
  return command.options();
}

}  // namespace

std::span<const Subcommand> subcommands() {
  static const std::array kSubcommands = {
      Subcommand{"run", "Start a job; the same as without a subcommand.",
                 "ddplaunch run [options] program [arguments ...]", nullptr, nullptr, nullptr, nullptr},
      Subcommand{"launch", "Start a job as python -m torch.distributed.launch does.",
                 "ddplaunch launch [options] script [arguments ...]", nullptr, nullptr, nullptr, nullptr},
      Subcommand{"top", "Show a running job.", "ddplaunch top [options] [PID|RUN_ID]", kTopDescription,
                 options_of<TopOptions>, kTopExitCodes, "ddplaunch top --once --json | jq .steps_per_second"},
      Subcommand{"ls", "List the running jobs.", "ddplaunch ls [options]", kLsDescription, options_of<LsOptions>, kLsExitCodes,
                 "ddplaunch ls --json | jq '.jobs[].run_id'"},
      Subcommand{"store", "Serve a rendezvous store without a job, or inspect one.",
                 "ddplaunch store [--host ADDR] [--port N] [options]\n"
                 "ddplaunch store --inspect HOST[:PORT] [--json] [--auth-token-file FILE]\n"
                 "ddplaunch store --join HOST[:PORT] --auth-token-file FILE",
                 kStoreDescription, options_of<StoreOptions>, kStoreExitCodes, "ddplaunch store --inspect 127.0.0.1:29500"},
      Subcommand{"report", "Make a report of a run from its event log.",
                 "ddplaunch report EVENT_LOG [EVENT_LOG] [-o FILE] [--run-id ID]", kReportDescription, options_of<ReportOptions>,
                 kReportExitCodes, "ddplaunch report run.jsonl -o run.html"},
      Subcommand{"explain", "Explain from logs why a job has failed.", "ddplaunch explain FILE|DIR|- ... [--json]",
                 kExplainDescription, options_of<ExplainOptions>, kExplainExitCodes, "ddplaunch explain slurm-4711.out"},
      Subcommand{"doctor", "Check the nodes before a job starts.",
                 "ddplaunch doctor [options of ddplaunch] [options]\n"
                 "ddplaunch doctor [options of ddplaunch] [options] program [arguments ...]", kDoctorDescription,
                 options_of<DoctorOptions>, kDoctorExitCodes, "ddplaunch doctor --hosts=a,b --nproc-per-node=8"},
      Subcommand{"bench", "Measure collectives between the workers.",
                 "ddplaunch bench [options of ddplaunch] [OPERATION ...] [options]", kBenchDescription, bench_options,
                 nullptr, "ddplaunch bench --nproc-per-node=4 all_reduce --sizes=4K,1M,25M"},
      Subcommand{"help", "Print all options, or the help on a subcommand, an option, a diagnosis, a known error or words.",
                 "ddplaunch help [SUBCOMMAND|OPTION|DIAGNOSIS|ERROR|WORDS]", nullptr, nullptr, nullptr, nullptr},
  };
  return kSubcommands;
}

const Subcommand* find_subcommand(std::string_view name) {
  const auto all = subcommands();
  const auto found = std::ranges::find(all, name, &Subcommand::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace ddp::launcher
