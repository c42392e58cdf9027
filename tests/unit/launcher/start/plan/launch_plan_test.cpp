#include "launcher/start/plan/launch_plan.h"

#include "support/catch.h"
#include "support/situation.h"

using namespace ddp::launcher;
using Visible = std::vector<std::optional<std::string>>;

TEST_CASE("requesting GPUs on a node without GPUs is a usage error") {
  Situation situation;
  situation.without_gpus().options.nproc_per_node = WorkerCount::By::gpus;
  CHECK(situation.failure().exit_code == 2);
  situation.options.nproc_per_node = 2;
  situation.options.backend = "nccl";
  CHECK(situation.failure().message.find("--backend=cpu") != std::string::npos);
  situation.options.backend = "";
  situation.options.gpus = "0";
  CHECK(situation.failure().message.find("--gpus=0: this node has no visible GPU") != std::string::npos);
}

TEST_CASE("the workers choose nccl if only the driver's library can count the GPUs") {
  Situation situation;
  situation.without_gpus().options.backend = "nccl";
  CHECK(situation.failure().exit_code == 2);
  situation.facts.has_uncounted_gpus = true;
  situation.options.nproc_per_node = 1;
  CHECK(situation.plan().workers == 1);
  CHECK(situation.plan().has_uncounted_gpus);
  situation.options.gpus = "0";
  CHECK(situation.failure().message.find("set CUDA_VISIBLE_DEVICES instead") != std::string::npos);
}

TEST_CASE("a GPU that CUDA_VISIBLE_DEVICES names twice is reported") {
  Situation situation;
  situation.facts.environment.emplace_back("CUDA_VISIBLE_DEVICES=1,1");
  const std::string words = "CUDA_VISIBLE_DEVICES=1,1 names GPU 1 twice, so CUDA shows no GPU to the workers.";
  CHECK(mentions(situation.plan().node_notes, words));
  situation.options.backend = "nccl";
  CHECK(situation.failure().message.find(words) != std::string::npos);
}

TEST_CASE("more workers than GPUs are an error unless the job uses CPUs") {
  Situation situation;
  situation.options.nproc_per_node = 8;
  CHECK(situation.failure().exit_code == 2);
  situation.options.backend = "gloo";
  CHECK(situation.plan().visible_devices == Visible(8));
  situation.options.gpus = "0,1";
  CHECK(situation.failure().message.find("8 workers but 2 GPUs (0,1)") != std::string::npos);
}

TEST_CASE("scripts may have more workers than GPUs, with a note") {
  for (const CompatibilityMode mode : {CompatibilityMode::native, CompatibilityMode::torchrun}) {
    Situation situation;
    situation.mode(mode).options.nproc_per_node = 8;
    CHECK(situation.plan().workers == 8);
    CHECK(mentions(situation.plan().node_notes,
                   "8 workers but 4 GPUs (0,1,2,3); the workers see all GPUs, which is correct only for a CPU job"));
    situation.options.backend = "nccl";
    CHECK(situation.failure().exit_code == 2);
  }
}

TEST_CASE("PyTorch programs report their collectives unless the user disables it") {
  Situation situation;
  CHECK(situation.plan().python_hook.empty());
  situation.facts.python_hook = "/hook";
  CHECK(situation.plan().python_hook == "/hook");
  situation.options.hang_timeout = std::chrono::milliseconds(0);
  CHECK(situation.plan().python_hook.empty());
  situation.options.hang_timeout.reset();
  situation.mode(CompatibilityMode::torchrun);
  CHECK(situation.plan().python_hook == "/hook");
}

TEST_CASE("the number of workers is one per GPU by default") {
  Situation situation;
  CHECK(situation.plan().workers == 4);
  situation.options.nproc_per_node = WorkerCount::By::gpus_or_cpus;
  CHECK(situation.plan().workers == 4);
  situation.options.nproc_per_node = 2;
  CHECK(situation.plan().workers == 2);
  situation.options.gpus = "1,2,3";
  situation.options.nproc_per_node = WorkerCount::By::gpus;
  CHECK(situation.plan().workers == 3);
  situation.options.gpus.reset();
  situation.without_gpus().options.nproc_per_node = {};
  CHECK(situation.plan().workers == 1);
  situation.options.nproc_per_node = WorkerCount::By::gpus_or_cpus;
  CHECK(situation.plan().workers == 16);
  situation.options.nproc_per_node = WorkerCount::By::cpus;
  CHECK(situation.plan().workers == 16);
}

TEST_CASE("under the name torchrun the number of workers is one by default") {
  Situation situation;
  situation.mode(CompatibilityMode::torchrun);
  CHECK(situation.plan().workers == 1);
  situation.options.nproc_per_node = WorkerCount::By::gpus;
  CHECK(situation.plan().workers == 4);
  situation.options.nproc_per_node = WorkerCount::By::gpus_or_cpus;
  CHECK(situation.plan().workers == 4);
}

TEST_CASE("native programs see only their own GPU, and scripts see all GPUs") {
  Situation situation;
  situation.options.nproc_per_node = 2;
  CHECK(situation.plan().visible_devices == Visible{"0", "1"});
  situation.facts.runs_python = true;
  CHECK(situation.plan().visible_devices == Visible(2));
  CHECK(situation.plan().python_unbuffered);
  situation.facts.runs_python = false;
  situation.options.device_visibility = DeviceVisibility::all;
  CHECK(situation.plan().visible_devices == Visible(2));
  CHECK(situation.plan().devices == Visible{"0", "1"});
  situation.options.device_visibility = std::nullopt;
  situation.mode(CompatibilityMode::native);
  CHECK(situation.plan().visible_devices == Visible(2));
  CHECK(situation.plan().devices == Visible{"0", "1"});
  situation.options.device_visibility = DeviceVisibility::own;
  CHECK(situation.plan().visible_devices == Visible{"0", "1"});
  situation.options.device_visibility = std::nullopt;
  situation.options.gpus = "3,1";
  CHECK(situation.plan().visible_devices == Visible{"3,1", "3,1"});
}

TEST_CASE("an inherited list of GPUs applies to the job") {
  Situation situation;
  situation.facts.environment.emplace_back("CUDA_VISIBLE_DEVICES=3,1");
  CHECK(situation.plan().visible_devices == Visible{"3", "1"});
  situation.options.gpus = "1";
  CHECK(situation.plan().visible_devices == Visible{"1"});
  situation.facts.environment.back() = "CUDA_VISIBLE_DEVICES=";
  CHECK(situation.failure().message.find("hides all GPUs") != std::string::npos);
}

TEST_CASE("each worker gets an equal share of the CPUs as OpenMP threads, with a short note") {
  Situation situation;
  CHECK(situation.plan().omp_threads == 4);
  CHECK(situation.plan().notes ==
        std::vector<std::string>{"using OMP_NUM_THREADS=4 per worker (16 CPUs / 4 workers); export it to override"});
  situation.facts.cpu_count = 2;
  CHECK(situation.plan().omp_threads == 1);
  situation.options.nproc_per_node = 1;
  CHECK_FALSE(situation.plan().omp_threads.has_value());
  CHECK(situation.plan().notes.empty());
  situation.options.nproc_per_node = 2;
  situation.facts.environment.emplace_back("OMP_NUM_THREADS=7");
  CHECK_FALSE(situation.plan().omp_threads.has_value());
}

TEST_CASE("workers are bound to the CPUs near their GPUs on request") {
  Situation situation;
  CHECK(situation.plan().bindings.empty());
  situation.options.numa_binding = NumaBinding::exclusive;
  const LaunchPlan plan = situation.plan();
  REQUIRE(plan.bindings.size() == 4);
  CHECK(plan.bindings[3].cpus == std::vector{12, 13, 14, 15});
  CHECK(plan.bindings[3].memory_nodes == std::vector{1});
  CHECK(mentions(plan.notes, "local rank 3: NUMA node 1, CPUs 12-15 (near GPU 3)"));
  CHECK(plan.omp_threads == 4);
  situation.options.oversubscribe = true;
  situation.options.nproc_per_node = 8;
  CHECK(mentions(situation.plan().notes, "8 workers bound to CPUs and memory (--numa-binding=exclusive)"));
  CHECK(situation.plan().omp_threads == 2);
  situation.options.nproc_per_node = 16;
  CHECK(situation.failure().exit_code == 2);
}

TEST_CASE("on a computer with one NUMA node the places of the GPUs are not needed") {
  Situation situation;
  situation.options.numa_binding = NumaBinding::node;
  for (GpuFacts& gpu : situation.facts.gpus) gpu.numa_node.reset();
  CHECK(situation.plan().bindings[0].description.find("unknown") != std::string::npos);
  for (CpuPlace& place : situation.facts.topology.value().cpus) place.numa_node = 0;
  CHECK(situation.plan().bindings[0].description == "NUMA node 0, CPUs 0-15 (near GPU 0)");
}

TEST_CASE("an unreadable CPU topology is an internal error with exit code 125") {
  Situation situation;
  situation.options.numa_binding = NumaBinding::node;
  situation.facts.topology = ddp::base::Failure{"hwloc cannot be initialized"};
  CHECK(situation.failure().exit_code == 125);
  CHECK(situation.failure().message == "--numa-binding=node: hwloc cannot be initialized. Leave the option out.");
}

TEST_CASE("a worker that is to read standard input must exist") {
  Situation situation;
  situation.options.stdin_local_rank = 3;
  CHECK(situation.plan().stdin_local_rank == 3);
  situation.options.nproc_per_node = 1;
  CHECK(situation.failure().message ==
        "--stdin=3 names a local rank, but there is 1 worker. Local ranks count from 0.");
}

TEST_CASE("a single worker reads the terminal, unless the job is in the background") {
  using enum StandardInput;
  struct Case {
    StandardInput input;
    int workers;
    std::optional<int> asked;
    std::optional<int> reader;
    bool is_noted;
  };
  for (const Case& one : {Case{terminal, 1, std::nullopt, 0, false},
                          {terminal, 2, std::nullopt, std::nullopt, false},
                          {terminal, 2, 1, 1, false},
                          {background_terminal, 1, std::nullopt, std::nullopt, false},
                          {background_terminal, 1, 0, 0, true},
                          {other, 1, std::nullopt, std::nullopt, false},
                          {other, 1, 0, 0, false}}) {
    CAPTURE(one.input, one.workers, one.asked.value_or(-1));
    Situation situation;
    situation.facts.standard_input = one.input;
    situation.options.nproc_per_node = one.workers;
    situation.options.stdin_local_rank = one.asked;
    const LaunchPlan plan = situation.plan();
    CHECK(plan.stdin_local_rank == one.reader);
    CHECK(mentions(plan.node_notes, "has no standard input") == one.is_noted);
  }
}

TEST_CASE("a program on standard input runs if exactly one worker reads it, and is an error otherwise") {
  struct Case {
    StandardInput input;
    int workers;
    std::optional<int> asked;
    int restarts;
    bool runs;
  };
  for (const std::string interpreter : {"python3", "bash"}) {
    for (const Case& one : {Case{StandardInput::other, 1, std::nullopt, 0, false},
                            {StandardInput::other, 1, 0, 0, true},
                            {StandardInput::other, 1, 0, 1, false},
                            {StandardInput::other, 2, 0, 0, false},
                            {StandardInput::terminal, 1, std::nullopt, 0, true}}) {
      CAPTURE(interpreter, one.workers, one.asked.value_or(-1), one.restarts);
      Situation situation;
      situation.facts.standard_input = one.input;
      situation.options.nproc_per_node = one.workers;
      situation.options.stdin_local_rank = one.asked;
      situation.options.max_restarts = one.restarts;
      situation.options.command = {interpreter, "-"};
      if (one.runs) {
        CHECK(situation.plan().stdin_local_rank == 0);
      } else {
        CHECK(situation.failure().exit_code == 2);
        CHECK(situation.failure().message ==
              interpreter +
                  " -: the program would be read from the standard input, which workers do not have. Save it "
                  "in a file, or use --stdin=0 with one worker and without restarts.");
      }
    }
  }
  Situation situation;
  situation.mode(CompatibilityMode::torchrun, "-").facts.program = {};
  CHECK(situation.failure().exit_code == 2);
  situation.options.stdin_local_rank = 0;
  CHECK(situation.plan().arguments.at(2) == "-");
}

TEST_CASE("simple options are copied to the plan") {
  using namespace std::chrono_literals;
  Situation situation;
  situation.options.max_restarts = 3;
  situation.options.grace = 7s;
  situation.options.exit_timeout = 9s;
  situation.options.ending_signals = {SIGTERM};
  situation.options.core = CoreDumps::off;
  situation.options.end_on_closed_console = true;
  situation.options.summary_file = "summary.json";
  situation.options.event_log = "events.jsonl";
  situation.options.role = "trainer";
  situation.options.log.level = LogLevel::warning;
  situation.options.lossless = true;
  situation.options.warnings = {"--start-method has no effect"};
  const LaunchPlan plan = situation.plan();
  CHECK(plan.max_restarts == 3);
  CHECK(plan.grace == 7s);
  CHECK(plan.exit_timeout == 9s);
  CHECK(plan.ending_signals == std::vector{SIGTERM});
  CHECK(plan.core == CoreDumps::off);
  CHECK(plan.end_on_closed_console);
  CHECK(plan.summary_file == "summary.json");
  CHECK(plan.event_log == "events.jsonl");
  CHECK(plan.role == "trainer");
  CHECK(plan.log.level == LogLevel::warning);
  CHECK(plan.output.lossless);
  CHECK(plan.notes.front() == "--start-method has no effect");
}

TEST_CASE("a program that cannot be started or a store that cannot be joined gives no plan") {
  Situation situation;
  situation.facts.program = {};
  CHECK(situation.failure().exit_code == 127);
  Situation nodes;
  nodes.options.max_nodes = 2;
  CHECK(nodes.failure().exit_code == 2);
}
