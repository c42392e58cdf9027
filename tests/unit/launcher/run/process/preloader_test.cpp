#include "launcher/run/process/preloader.h"

#include <algorithm>

#include "support/catch.h"

namespace ddp::launcher {
namespace {

TEST_CASE("the preloader has the command of a worker and the variables that all workers share") {
  LaunchPlan plan;
  plan.preload = "torch,numpy";
  plan.program = "/usr/bin/python3";
  plan.arguments = {"python3", "-u", "train.py", "--epochs=3"};
  plan.workers = 2;
  plan.visible_devices = {"0", "1"};
  plan.omp_threads = 1;
  plan.run_id = "run";
  plan.inherited_environment = {"HOME=/root", "RANK=7", "MASTER_ADDR=node0"};
  const PreloadSpec spec = make_preload_spec(plan);
  CHECK(spec.refused.empty());
  CHECK(spec.command == std::vector<std::string>{"/usr/bin/python3", "-u", "train.py", "--epochs=3"});
  const auto has = [&](const std::string& line) {
    return std::ranges::find(spec.environment, line) != spec.environment.end();
  };
  const auto has_name = [&](const std::string& name) {
    return std::ranges::any_of(spec.environment, [&](const std::string& line) { return line.starts_with(name + "="); });
  };
  for (const char* line : {"HOME=/root", "OMP_NUM_THREADS=1", "TORCHELASTIC_RUN_ID=run"}) {
    CHECK(has(line));
  }
  CHECK(spec.modules == "torch,numpy");
  CHECK_FALSE(has_name("DDP_PRELOADER"));
  CHECK(spec.probe == std::vector<std::string>{"/usr/bin/python3", "-c", ""});
  const auto unknown = std::ranges::find_if(
      spec.environment, [](const std::string& line) { return line.starts_with("DDP_PRELOADER_UNKNOWN="); });
  REQUIRE(unknown != spec.environment.end());
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
                           "CUDA_VISIBLE_DEVICES", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_ERROR_FILE"}) {
    CHECK_FALSE(has_name(name));
    CHECK(unknown->find(name) != std::string::npos);
  }
}

TEST_CASE("a plan that cannot be preloaded gives the reason") {
  LaunchPlan plan;
  plan.preload_refused = "it is no Python";
  CHECK(make_preload_spec(plan).refused == "it is no Python");
}

}  // namespace
}  // namespace ddp::launcher
