// Compares each worker's environment with torchrun's for many sets of options: names and values, with no differences
// except the listed ones. `torchrun` is what torchrun of PyTorch 2.12 sets; `ours` is an intended difference.
#include <algorithm>
#include <csignal>
#include <functional>
#include <map>

#include "launcher/run/process/worker_spec.h"
#include "launcher/start/facts/node_facts.h"
#include "support/catch.h"
#include "support/situation.h"

using namespace ddp::launcher;

namespace {

using Variables = std::map<std::string, std::string>;

constexpr std::uint16_t kFreePort = 41873;
constexpr const char* kUuid = "11111111-2222-4333-8444-555555555555";

// In the values, "{r}" is the worker's local rank.
struct OptionSet {
  std::string name;
  int workers;
  std::function<void(Situation&)> change;
  Variables torchrun;  // variables beyond the plain set below
  Variables ours;      // variables in place of torchrun's, because of `reason`
  std::string reason;
  int attempt = 0;
  std::string last_failure = {};
};

// Returns the variables in the section "environment given to workers" of torchrun's documentation, for one node with
// neither port, endpoint nor backend.
Variables plain(int workers) {
  const std::string world = std::to_string(workers);
  Variables variables = {{"LOCAL_RANK", "{r}"},
                         {"RANK", "{r}"},
                         {"WORLD_SIZE", world},
                         {"LOCAL_WORLD_SIZE", world},
                         {"GROUP_RANK", "0"},
                         {"GROUP_WORLD_SIZE", "1"},
                         {"ROLE_RANK", "{r}"},
                         {"ROLE_WORLD_SIZE", world},
                         {"ROLE_NAME", "default"},
                         {"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", std::to_string(kFreePort)},
                         {"TORCHELASTIC_RESTART_COUNT", "0"},
                         {"TORCHELASTIC_MAX_RESTARTS", "0"},
                         {"TORCHELASTIC_RUN_ID", kUuid},
                         {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                         {"TORCHELASTIC_ERROR_FILE", "/logs/{r}/error.json"},
                         {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                         {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"}};
  if (workers > 1) variables["OMP_NUM_THREADS"] = "1";
  return variables;
}

// Returns the differences under all options: more variables, and OpenMP threads that use the whole node (16 CPUs here).
Variables always_ours(int workers) {
  Variables variables = {{"DDP_ATTEMPT", "0"}, {"DDP_PAGE_FD", "197"}, {"DDP_RECORD_FD", "196"}, {"DDP_WATCHED", "1"}};
  if (workers > 1) variables["OMP_NUM_THREADS"] = std::to_string(16 / workers);
  return variables;
}

Variables expected(const OptionSet& set, int local_rank) {
  Variables variables;
  for (Variables layer : {set.ours, set.torchrun, always_ours(set.workers), plain(set.workers)}) variables.merge(layer);
  for (auto& [name, value] : variables) {
    const std::size_t at = value.find("{r}");
    if (at != std::string::npos) value.replace(at, 3, std::to_string(local_rank));
  }
  std::erase_if(variables, [](const auto& variable) { return variable.second == "(unset)"; });
  return variables;
}

Variables given(const OptionSet& set, const LaunchPlan& plan, int local_rank) {
  Placement placement;
  placement.world_size = plan.workers;
  placement.master_addr = plan.store.advertised;
  placement.master_port = plan.store.port == 0 ? kFreePort : plan.store.port;
  placement.attempt = set.attempt;
  placement.may_restart = set.attempt < plan.max_restarts;
  const WorkerContext context{local_rank, "/logs/" + std::to_string(local_rank) + "/error.json", set.last_failure};
  Variables variables;
  for (const std::string& line : make_worker_spec(plan, placement, context).environment) {
    const std::size_t equals = line.find('=');
    variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  CHECK(variables.erase("PATH") == 1);
  // This variable is set only if there are GPUs. It has its own test.
  const bool has_gpus = std::any_of(plan.devices.begin(), plan.devices.end(), [](const auto& gpu) { return gpu; });
  CHECK(variables.erase("NCCL_RAS_ADDR") == (has_gpus ? 1 : 0));
  CHECK(variables.erase("CUDA_DEVICE_MAX_CONNECTIONS") == (has_gpus && plan.is_native_program ? 1 : 0));
  return variables;
}

void nproc(Situation& s, const WorkerCount& number) {
  s.options.nproc_per_node = number;
}
void inherit(Situation& s, const std::string& line) {
  s.facts.environment.push_back(line);
}

std::vector<OptionSet> torchrun_sets() {
  return {
      {"no options", 1, [](Situation&) {}, {}, {}, ""},
      {"--nproc-per-node=2", 2, [](Situation& s) { nproc(s, 2); }, {}, {}, ""},
      {"--nproc-per-node=gpu", 4, [](Situation& s) { nproc(s, WorkerCount::By::gpus); }, {}, {}, ""},
      {"--nproc-per-node=auto without GPUs",
       16,
       [](Situation& s) { nproc(s.without_gpus(), WorkerCount::By::gpus_or_cpus); },
       {},
       {},
       ""},
      {"--standalone", 2, [](Situation& s) { nproc(s, 2), s.options.standalone = true; }, {}, {}, ""},
      {"--standalone --rdzv-id=me",
       1,
       [](Situation& s) { s.options.standalone = true, s.options.run_id = "me"; },
       {},
       {},
       ""},
      {"--rdzv-backend=static",
       1,
       [](Situation& s) { s.options.rdzv_backend = RdzvBackend::static_; },
       {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "none"}},
       {},
       ""},
      {"--master-addr=10.0.0.1 --master-port=4000 --rdzv-id=7",
       1,
       [](Situation& s) { s.options.master_addr = "10.0.0.1", s.options.master_port = 4000, s.options.run_id = "7"; },
       {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4000"}, {"TORCHELASTIC_RUN_ID", "7"}},
       {},
       ""},
      {"--rdzv-backend=c10d --rdzv-endpoint=node0:4000",
       1,
       [](Situation& s) { s.options.rdzv_backend = RdzvBackend::c10d, s.options.rdzv_endpoint = "node0:4000"; },
       {{"MASTER_ADDR", "a.example.org"}, {"MASTER_PORT", "4000"}, {"TORCHELASTIC_RUN_ID", "none"}},
       {{"MASTER_ADDR", "node0"}},
       "the address as given instead of the host's full name by DNS"},
      {"--rdzv-backend=c10d --rdzv-endpoint=localhost",
       1,
       [](Situation& s) { s.options.rdzv_backend = RdzvBackend::c10d, s.options.rdzv_endpoint = "localhost"; },
       {{"MASTER_PORT", "29400"}, {"TORCHELASTIC_RUN_ID", "none"}},
       {},
       ""},
      {"--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-id=x",
       2,
       [](Situation& s) {
         nproc(s, 2);
         s.options.rdzv_backend = RdzvBackend::c10d, s.options.rdzv_endpoint = "localhost:0", s.options.run_id = "x";
       },
       {{"TORCHELASTIC_RUN_ID", "x"}},
       {},
       ""},
      {"--rdzv-backend=c10d",
       1,
       [](Situation& s) { s.options.rdzv_backend = RdzvBackend::c10d; },
       {{"MASTER_PORT", "29400"}, {"TORCHELASTIC_RUN_ID", "none"}},
       {{"MASTER_PORT", std::to_string(kFreePort)}},
       "a free port, so that two jobs on a machine never meet"},
      {"--rdzv-endpoint=[::1]:4000",
       1,
       [](Situation& s) { s.options.rdzv_endpoint = "[::1]:4000"; },
       {{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "4000"}, {"TORCHELASTIC_RUN_ID", "none"}},
       {},
       ""},
      {"--local-addr=10.1.1.1",
       1,
       [](Situation& s) { s.options.local_addr = "10.1.1.1"; },
       {{"MASTER_ADDR", "10.1.1.1"}},
       {},
       ""},
      {"--max-restarts=3 in its third attempt",
       1,
       [](Situation& s) { s.options.max_restarts = 3; },
       {{"TORCHELASTIC_MAX_RESTARTS", "3"},
        {"TORCHELASTIC_RESTART_COUNT", "2"},
        {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}},
       {{"DDP_ATTEMPT", "2"},
        {"DDP_LAST_FAILURE", "rank 0 failed"},
        {"DDP_STATE_MEMORY", R"({"fd":195,"area":0,"areas":1,"rank":0,"world":1,"attempt":2,"may_restart":1})"}},
       "a restarted worker is told why",
       2,
       "rank 0 failed"},
      {"--role=trainer", 1, [](Situation& s) { s.options.role = "trainer"; }, {{"ROLE_NAME", "trainer"}}, {}, ""},
      {"--log-dir=/dev/null",
       1,
       [](Situation& s) { s.options.log_dir = "/dev/null"; },
       {{"TORCHELASTIC_ERROR_FILE", ""}},
       {},
       ""},
      {"--signals-to-handle=SIGTERM,SIGUSR1",
       1,
       [](Situation& s) {
         s.options.ending_signals = {SIGTERM, SIGUSR1};
         inherit(s, "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGINT");
       },
       {{"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGUSR1"}},
       {},
       ""},
      {"--module", 1, [](Situation& s) { s.options.module = true; }, {}, {}, ""},
      {"--no-python",
       1,
       [](Situation& s) {
         const auto torchrun = s.options;
         s = Situation();
         s.options.compatibility_mode = CompatibilityMode::torchrun, s.options.no_python = true;
         s.options.ending_signals = torchrun.ending_signals;
       },
       {},
       {},
       ""},
      {"torch.distributed.launch",
       2,
       [](Situation& s) {
         s.mode(CompatibilityMode::torch_launch).options.local_rank_argument = true;
         nproc(s, 2);
       },
       {},
       {},
       ""},
  };
}

std::vector<OptionSet> device_and_inheritance_sets() {
  return {
      {"--virtual-local-rank",
       2,
       [](Situation& s) { nproc(s, 2), s.options.virtual_local_rank = true; },
       {{"LOCAL_RANK", "0"}, {"CUDA_VISIBLE_DEVICES", "{r}"}},
       {},
       ""},
      {"--virtual-local-rank and an inherited list of GPUs",
       1,
       [](Situation& s) { s.options.virtual_local_rank = true, inherit(s, "CUDA_VISIBLE_DEVICES=3,1"); },
       {{"LOCAL_RANK", "0"}, {"CUDA_VISIBLE_DEVICES", "3"}},
       {},
       ""},
      {"--virtual-local-rank without GPUs",
       2,
       [](Situation& s) { nproc(s.without_gpus(), 2), s.options.virtual_local_rank = true; },
       {{"LOCAL_RANK", "0"}, {"CUDA_VISIBLE_DEVICES", "{r}"}},
       {},
       ""},
      {"an inherited list of GPUs",
       2,
       [](Situation& s) { nproc(s, 2), inherit(s, "CUDA_VISIBLE_DEVICES=2,3"); },
       {{"CUDA_VISIBLE_DEVICES", "2,3"}},
       {},
       ""},
      {"an inherited OMP_NUM_THREADS",
       2,
       [](Situation& s) { nproc(s, 2), inherit(s, "OMP_NUM_THREADS=7"); },
       {{"OMP_NUM_THREADS", "7"}},
       {},
       ""},
      {"an inherited TORCH_NCCL_ASYNC_ERROR_HANDLING",
       1,
       [](Situation& s) { inherit(s, "TORCH_NCCL_ASYNC_ERROR_HANDLING=3"); },
       {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "3"}},
       {},
       ""},
      {"started within a worker of another job",
       1,
       [](Situation& s) {
         for (const auto& [name, value] : plain(2)) {
           if (name != "OMP_NUM_THREADS" && name != "TORCH_NCCL_ASYNC_ERROR_HANDLING") inherit(s, name + "=99");
         }
         inherit(s, "DDP_LAST_FAILURE=another job's");
         inherit(s, "DDP_ATTEMPT=9");
       },
       {},
       {},
       ""},
      {"--gpus=2,3",
       2,
       [](Situation& s) { nproc(s, 2), s.options.gpus = "2,3"; },
       {},
       {{"CUDA_VISIBLE_DEVICES", "2,3"}},
       "torchrun has no such option"},
      {"--backend=nccl --quiet",
       1,
       [](Situation& s) { s.options.backend = "nccl", s.options.log.level = LogLevel::warning; },
       {},
       {{"DDP_BACKEND", "nccl"}, {"DDP_QUIET", "1"}},
       "torchrun has no such options"},
      {"a native program under our own name",
       4,
       [](Situation& s) { s = Situation(); },
       {},
       {{"CUDA_VISIBLE_DEVICES", "{r}"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"TORCHELASTIC_RUN_ID", "0123456789abcdef"},
        {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP"}},
       "each native worker sees its own GPU; nothing needs to resolve localhost; a shorter name; SIGQUIT asks how it "
       "goes"},
      {"a script under our own name",
       2,
       [](Situation& s) { nproc(s.mode(CompatibilityMode::native), 2); },
       {},
       {{"MASTER_ADDR", "127.0.0.1"},
        {"TORCHELASTIC_RUN_ID", "0123456789abcdef"},
        {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP"}},
       "nothing needs to resolve localhost; a shorter name; SIGQUIT asks how it goes"},
  };
}

void check(const OptionSet& set) {
  CAPTURE(set.name, set.reason);
  // Every difference needs a reason.
  CHECK(set.ours.empty() == set.reason.empty());
  Situation situation;
  situation.mode(CompatibilityMode::torchrun);
  set.change(situation);
  const LaunchPlan plan = situation.plan();
  REQUIRE(plan.workers == set.workers);
  for (int rank = 0; rank < plan.workers; ++rank) {
    CAPTURE(rank);
    CHECK(given(set, plan, rank) == expected(set, rank));
  }
}

}  // namespace

TEST_CASE("each option of torchrun gives the workers torchrun's environment") {
  const std::vector<OptionSet> sets = torchrun_sets();
  CHECK(sets.size() >= 20);
  for (const OptionSet& set : sets) check(set);
}

TEST_CASE("with GPUs and inherited variables workers get torchrun's environment except for documented differences") {
  for (const OptionSet& set : device_and_inheritance_sets()) check(set);
}

TEST_CASE("ranks with GPUs get an address of their own job for NCCL RAS") {
  const auto address = [](const std::function<void(Situation&)>& change, std::uint16_t port = 29500) {
    Situation situation;
    change(situation);
    Placement placement;
    placement.master_addr = "127.0.0.1";
    placement.master_port = port;
    const WorkerSpec spec = make_worker_spec(situation.plan(), placement, {});
    return find_variable(spec.environment, "NCCL_RAS_ADDR").value_or("");
  };
  const auto nothing = [](Situation&) {};
  CHECK_THAT(address(nothing), Catch::Matches(R"(127(\.[1-9][0-9]*){3}:28028)"));
  CHECK(address(nothing) == address(nothing));
  CHECK(address(nothing) != address(nothing, 29501));
  CHECK(address([](Situation& s) { s.facts.random_id = "another"; }) != address(nothing));
  CHECK(address([](Situation& s) { s.without_gpus().options.nproc_per_node = 2; }).empty());
  CHECK(address([](Situation& s) { inherit(s, "NCCL_RAS_ADDR=localhost:1"); }) == "localhost:1");
}

TEST_CASE("ranks with GPUs get the NCCL profiler plug-in unless the user has one") {
  const auto plugin = [](const std::function<void(Situation&)>& change) {
    Situation situation;
    situation.facts.nccl_profiler = "/ours.so";
    change(situation);
    const LaunchPlan plan = situation.plan();
    const std::string note = mentions(plan.node_notes, "NCCL_PROFILER_PLUGIN=") ? " (noted)" : "";
    const WorkerSpec spec = make_worker_spec(plan, Placement(), {});
    return find_variable(spec.environment, "NCCL_PROFILER_PLUGIN").value_or("") + note;
  };
  CHECK(plugin([](Situation&) {}) == "/ours.so");
  CHECK(plugin([](Situation& s) { s.without_gpus().options.nproc_per_node = 2; }).empty());
  CHECK(plugin([](Situation& s) { s.options.hang_timeout = std::chrono::milliseconds(0); }).empty());
  CHECK(plugin([](Situation& s) { inherit(s, "NCCL_PROFILER_PLUGIN=inspector"); }) == "inspector (noted)");
  CHECK(plugin([](Situation& s) { inherit(s, "NCCL_PROFILER_PLUGIN=none"); }) == "none");
}

TEST_CASE("native programs with GPUs get 32 hardware queues unless the user chose a number") {
  const auto queues = [](const std::function<void(Situation&)>& change) {
    Situation situation;
    change(situation);
    const WorkerSpec spec = make_worker_spec(situation.plan(), {}, {});
    return find_variable(spec.environment, "CUDA_DEVICE_MAX_CONNECTIONS").value_or("");
  };
  CHECK(queues([](Situation&) {}) == "32");
  CHECK(queues([](Situation& s) { inherit(s, "CUDA_DEVICE_MAX_CONNECTIONS=1"); }) == "1");
  CHECK(queues([](Situation& s) { s.without_gpus().options.nproc_per_node = 2; }).empty());
  const auto under_wsl2 = [](Situation& s) {
    s.without_gpus().options.nproc_per_node = 2;
    s.facts.has_uncounted_gpus = true;
  };
  CHECK(queues(under_wsl2) == "32");
  CHECK(queues([](Situation& s) { s.facts.runs_python = true; }).empty());
  CHECK(queues([](Situation& s) { s.mode(CompatibilityMode::native); }).empty());
  CHECK(queues([](Situation& s) {
          s.options.compatibility_mode = CompatibilityMode::torchrun, s.options.no_python = true;
        }).empty());
}

TEST_CASE("gloo gets the network interface to the other nodes, and NCCL exactly that interface") {
  Situation situation;
  situation.options.min_nodes = situation.options.max_nodes = 2;
  situation.options.rdzv_endpoint = "a:29400";
  Placement placement;
  placement.interface = "eth1";
  const WorkerSpec spec = make_worker_spec(situation.plan(), placement, {});
  CHECK(find_variable(spec.environment, "GLOO_SOCKET_IFNAME") == "eth1");
  CHECK(find_variable(spec.environment, "NCCL_SOCKET_IFNAME") == "=eth1");
}
