#include "launcher/run/process/worker_spec.h"

#include <algorithm>
#include <csignal>
#include <map>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

using Variables = std::map<std::string, std::string>;

LaunchPlan plan_of(int workers) {
  LaunchPlan plan;
  plan.program = "/bin/train";
  plan.arguments = {"train", "-x"};
  plan.workers = workers;
  plan.visible_devices.resize(static_cast<std::size_t>(workers));
  plan.run_id = "run";
  plan.role = "default";
  plan.ending_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  plan.inherited_environment = {"HOME=/root", "RANK=77", "EQUALS=a=b"};
  return plan;
}

Placement placement_of(int workers) {
  Placement placement;
  placement.world_size = workers;
  placement.master_addr = "127.0.0.1";
  placement.master_port = 41873;
  return placement;
}

Variables variables(const LaunchPlan& plan, const Placement& placement, const WorkerContext& context) {
  Variables result;
  const WorkerSpec spec = make_worker_spec(plan, placement, context);
  for (const std::string& line : spec.environment) {
    const std::size_t equals = line.find('=');
    CHECK(result.emplace(line.substr(0, equals), line.substr(equals + 1)).second);
  }
  return result;
}

Variables variables(const LaunchPlan& plan, int local_rank) {
  return variables(plan, placement_of(plan.workers), {local_rank, "/tmp/error.json"});
}

std::vector<std::string> arguments(const LaunchPlan& plan, int local_rank) {
  return make_worker_spec(plan, placement_of(plan.workers), {local_rank, ""}).arguments;
}

}  // namespace

TEST_CASE("a worker has the complete environment of torchrun") {
  LaunchPlan plan = plan_of(2);
  plan.omp_threads = 1;
  CHECK(variables(plan, 1) == Variables{{"HOME", "/root"},
                                        {"EQUALS", "a=b"},
                                        {"LOCAL_RANK", "1"},
                                        {"RANK", "1"},
                                        {"WORLD_SIZE", "2"},
                                        {"LOCAL_WORLD_SIZE", "2"},
                                        {"GROUP_RANK", "0"},
                                        {"GROUP_WORLD_SIZE", "1"},
                                        {"ROLE_NAME", "default"},
                                        {"ROLE_RANK", "1"},
                                        {"ROLE_WORLD_SIZE", "2"},
                                        {"MASTER_ADDR", "127.0.0.1"},
                                        {"MASTER_PORT", "41873"},
                                        {"TORCHELASTIC_RESTART_COUNT", "0"},
                                        {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                        {"TORCHELASTIC_RUN_ID", "run"},
                                        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                        {"TORCHELASTIC_ERROR_FILE", "/tmp/error.json"},
                                        {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
                                        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                        {"DDP_ATTEMPT", "0"},
                                        {"DDP_PAGE_FD", "197"},
                                        {"DDP_RECORD_FD", "196"},
                                        {"DDP_WATCHED", "1"},
                                        {"OMP_NUM_THREADS", "1"}});
}

TEST_CASE("variables that the user has set are kept where torchrun keeps them") {
  LaunchPlan plan = plan_of(2);
  plan.inherited_environment = {"TORCH_NCCL_ASYNC_ERROR_HANDLING=3", "OMP_NUM_THREADS=7", "CUDA_VISIBLE_DEVICES=1"};
  const Variables result = variables(plan, 0);
  CHECK(result.at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
  CHECK(result.at("OMP_NUM_THREADS") == "7");
  CHECK(result.at("CUDA_VISIBLE_DEVICES") == "1");
}

TEST_CASE("a worker sees the GPUs of its plan") {
  LaunchPlan plan = plan_of(2);
  plan.visible_devices = {"0", "GPU-5f1c"};
  CHECK(variables(plan, 1).at("CUDA_VISIBLE_DEVICES") == "GPU-5f1c");
}

TEST_CASE("backend and quiet options reach the worker") {
  LaunchPlan plan = plan_of(1);
  CHECK_FALSE(variables(plan, 0).contains("DDP_BACKEND"));
  CHECK_FALSE(variables(plan, 0).contains("DDP_QUIET"));
  plan.backend = "gloo";
  plan.log.level = LogLevel::warning;
  CHECK(variables(plan, 0).at("DDP_BACKEND") == "gloo");
  CHECK(variables(plan, 0).at("DDP_QUIET") == "1");
}

TEST_CASE("ranks on a later node follow those of earlier nodes") {
  Placement placement = placement_of(5);
  placement.node_rank = 1;
  placement.node_count = 2;
  placement.first_rank = 2;
  const WorkerSpec spec = make_worker_spec(plan_of(3), placement, {2, ""});
  const auto has = [&](const std::string& line) {
    return std::find(spec.environment.begin(), spec.environment.end(), line) != spec.environment.end();
  };
  CHECK(has("RANK=4"));
  CHECK(has("LOCAL_RANK=2"));
  CHECK(has("GROUP_RANK=1"));
  CHECK(has("GROUP_WORLD_SIZE=2"));
  CHECK(has("WORLD_SIZE=5"));
  CHECK(has("LOCAL_WORLD_SIZE=3"));
}

TEST_CASE("a worker's Python gets ddplaunch's hook directory before the user's paths") {
  LaunchPlan plan = plan_of(1);
  const auto with = [&](const std::string& path) {
    plan.inherited_environment = {path};
    return variables(plan, placement_of(1), {0, "", "", "/run/torch"});
  };
  CHECK_FALSE(with("PYTHONPATH=/user").contains("DDP_TORCH_FILE"));
  CHECK(with("PYTHONPATH=/user").at("PYTHONPATH") == "/user");
  plan.python_hook = "/hook";
  CHECK(with("PYTHONPATH=/user").at("PYTHONPATH") == "/hook:/user");
  CHECK(with("PYTHONPATH=").at("PYTHONPATH") == "/hook");
  CHECK(with("A=b").at("PYTHONPATH") == "/hook");
  CHECK(with("A=b").at("DDP_TORCH_FILE") == "/run/torch");
  plan.python_modules = "/modules";
  CHECK(with("PYTHONPATH=/user").at("PYTHONPATH") == "/hook:/user:/modules");
  plan.python_hook = "";
  CHECK(with("A=b").at("PYTHONPATH") == "/modules");
  CHECK_FALSE(with("A=b").contains("DDP_TORCH_FILE"));
}

TEST_CASE("a restarted worker gets its attempt number and the last failure") {
  LaunchPlan plan = plan_of(1);
  plan.max_restarts = 3;
  plan.inherited_environment = {"DDP_LAST_FAILURE=of another job", "DDP_ATTEMPT=9"};
  CHECK(variables(plan, 0).at("DDP_ATTEMPT") == "0");
  CHECK_FALSE(variables(plan, 0).contains("DDP_LAST_FAILURE"));
  Placement third = placement_of(1);
  third.attempt = 2;
  const Variables restarted = variables(plan, third, {0, "", "rank 1 failed (exit code 3)\nTraceback"});
  CHECK(restarted.at("DDP_ATTEMPT") == "2");
  CHECK(restarted.at("TORCHELASTIC_RESTART_COUNT") == "2");
  CHECK(restarted.at("TORCHELASTIC_MAX_RESTARTS") == "3");
  CHECK(restarted.at("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "3");
  CHECK(restarted.at("DDP_LAST_FAILURE") == "rank 1 failed (exit code 3)");
}

TEST_CASE("the local rank is inserted into arguments only where torchrun inserts it") {
  LaunchPlan plan = plan_of(2);
  plan.arguments = {"/usr/bin/python3", "-u", "train.py", "--log=$local_rank", "$$"};
  CHECK(arguments(plan, 1) == plan.arguments);
  plan.local_rank_macro = true;
  CHECK(arguments(plan, 1) == std::vector<std::string>{"/usr/bin/python3", "-u", "train.py", "--log=1", "$"});
  plan.local_rank_argument = true;
  plan.local_rank_argument_at = 3;
  CHECK(arguments(plan, 1) ==
        std::vector<std::string>{"/usr/bin/python3", "-u", "train.py", "--local_rank=1", "--log=1", "$"});
  plan.arguments.resize(3);
  CHECK(arguments(plan, 0).back() == "--local_rank=0");
}

TEST_CASE("CPU binding, core limit and standard input reach the right worker") {
  LaunchPlan plan = plan_of(2);
  plan.bindings = {{{0, 1}, {0}, ""}, {{2, 3}, {1}, ""}};
  plan.core = CoreDumps::off;
  plan.stdin_local_rank = 1;
  const WorkerSpec first = make_worker_spec(plan, placement_of(2), {0, ""});
  const WorkerSpec second = make_worker_spec(plan, placement_of(2), {1, ""});
  CHECK(first.cpus == std::vector{0, 1});
  CHECK(second.memory_nodes == std::vector{1});
  CHECK(first.core == CoreDumps::off);
  CHECK_FALSE(first.reads_stdin);
  CHECK(second.reads_stdin);
  plan.bindings.clear();
  CHECK(make_worker_spec(plan, placement_of(2), {1, ""}).cpus.empty());
}

TEST_CASE("with --save-grace a worker ignores the saving signals that do not end a job") {
  LaunchPlan plan = plan_of(1);
  plan.ending_signals = {SIGTERM, SIGINT};
  plan.save_signals = {SIGTERM, SIGUSR1};
  CHECK(make_worker_spec(plan, placement_of(1), {0, ""}).ignored_signals.empty());
  plan.save_grace = std::chrono::seconds(30);
  CHECK(make_worker_spec(plan, placement_of(1), {0, ""}).ignored_signals == std::vector{SIGUSR1});
}
