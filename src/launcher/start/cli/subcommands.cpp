#include "launcher/start/cli/subcommands.h"

#include <algorithm>
#include <array>

#include "bench/bench_options.h"
#include "launcher/start/cli/explain_options.h"
#include "launcher/start/cli/ls_options.h"
#include "launcher/start/cli/report_options.h"
#include "launcher/start/cli/store_options.h"
#include "launcher/start/cli/top_options.h"

namespace ddp::launcher {
namespace {

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
      Subcommand{"top", "Show a running job.", "ddplaunch top [options] [PID|RUN_ID]", kTopDescription, top_options,
                 kTopExitCodes, "ddplaunch top --once --json | jq .steps_per_second"},
      Subcommand{"ls", "List the running jobs.", "ddplaunch ls [options]", kLsDescription, ls_options, kLsExitCodes,
                 "ddplaunch ls --json | jq '.jobs[].run_id'"},
      Subcommand{"store", "Serve a rendezvous store without a job, or inspect one.",
                 "ddplaunch store [--host ADDR] [--port N] [options]\n"
                 "ddplaunch store --inspect HOST[:PORT] [--json] [--auth-token-file FILE]\n"
                 "ddplaunch store --join HOST[:PORT] --auth-token-file FILE",
                 kStoreDescription, store_options, kStoreExitCodes, "ddplaunch store --inspect 127.0.0.1:29500"},
      Subcommand{"report", "Make a report of a run from its event log.",
                 "ddplaunch report EVENT_LOG [EVENT_LOG] [-o FILE] [--run-id ID]", kReportDescription, report_options,
                 kReportExitCodes, "ddplaunch report run.jsonl -o run.html"},
      Subcommand{"explain", "Explain from logs why a job has failed.", "ddplaunch explain FILE|DIR|- ... [--json]",
                 kExplainDescription, explain_options, kExplainExitCodes, "ddplaunch explain slurm-4711.out"},
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
