#include "launcher/plan/launch_plan.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>

using namespace ddp::launcher;

namespace {

// A machine with four GPUs and sixteen CPUs, and a user who wants to run ./train.
struct Situation {
  Options options{.command = {"./train", "--epochs", "3"}};
  HostFacts facts{.host_name = "a",
                  .cpu_count = 16,
                  .gpu_count = 4,
                  .environment = {"PATH=/bin"},
                  .program = {.path = "./train", .found = true, .executable = true, .suggestion = ""},
                  .random_id = "0123456789abcdef"};

  LaunchPlan plan() const {
    auto result = make_launch_plan(options, facts);
    if (!result) FAIL(result.error().message);
    return std::move(result).value();
  }
  PlanFailure failure() const {
    const auto result = make_launch_plan(options, facts);
    REQUIRE_FALSE(result.ok());
    return result.error();
  }
};

std::string golden(const std::string& name) {
  std::ifstream file(std::string(DDP_TEST_SOURCE_DIR) + "/tests/golden/" + name);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a wrong number of workers is a usage error that names what is possible") {
  Situation situation;
  for (const char* number : {"0", "-1", "two", "4097", "1.5", "2 "}) {
    situation.options.nproc_per_node = number;
    CAPTURE(number);
    CHECK(situation.failure().exit_code == 2);
    CHECK(situation.failure().message.find("auto, gpu or cpu") != std::string::npos);
  }
}

TEST_CASE("asking for GPUs where there are none is a usage error") {
  Situation situation;
  situation.facts.gpu_count = 0;
  situation.options.nproc_per_node = "gpu";
  CHECK(situation.failure().exit_code == 2);
  situation.options.nproc_per_node = "2";
  situation.options.backend = "nccl";
  CHECK(situation.failure().message.find("--backend=gloo") != std::string::npos);
}

TEST_CASE("more workers than GPUs is refused unless the job is one for CPUs") {
  Situation situation;
  situation.options.nproc_per_node = "8";
  CHECK(situation.failure().exit_code == 2);
  situation.options.backend = "gloo";
  CHECK(situation.plan().visible_devices == std::vector<std::optional<std::string>>(8));
}

TEST_CASE("a program that cannot be started has the shell's exit codes") {
  Situation situation;
  situation.facts.program = {.path = "", .suggestion = "./train"};
  situation.options.command = {"./trian"};
  CHECK(situation.failure().exit_code == 127);
  CHECK(situation.failure().message == "cannot start ./trian: no such file. Did you mean ./train?");
  situation.options.command = {"trian"};
  situation.facts.program.suggestion = "";
  CHECK(situation.failure().message == "cannot start trian: not found in PATH.");
  situation.facts.program = {.path = "./train", .found = true, .suggestion = ""};
  CHECK(situation.failure().exit_code == 126);
  situation.facts.program.is_directory = true;
  CHECK(situation.failure().exit_code == 126);
}

TEST_CASE("a Python script without execute permission is told how to run") {
  Situation situation;
  situation.options.command = {"train.py"};
  situation.facts.program = {.path = "./train.py", .found = true, .suggestion = ""};
  CHECK(situation.failure().message.find("python3 -u train.py") != std::string::npos);
}

TEST_CASE("the number of workers is one a GPU unless it is given") {
  Situation situation;
  CHECK(situation.plan().workers == 4);
  situation.options.nproc_per_node = "auto";
  CHECK(situation.plan().workers == 4);
  situation.options.nproc_per_node = "2";
  CHECK(situation.plan().workers == 2);
  situation.facts.gpu_count = 0;
  situation.options.nproc_per_node = "";
  CHECK(situation.plan().workers == 1);
  situation.options.nproc_per_node = "auto";
  CHECK(situation.plan().workers == 16);
  situation.options.nproc_per_node = "cpu";
  CHECK(situation.plan().workers == 16);
}

TEST_CASE("each worker gets an equal share of the CPUs as OpenMP threads") {
  Situation situation;
  CHECK(situation.plan().omp_threads == 4);
  situation.facts.cpu_count = 2;
  CHECK(situation.plan().omp_threads == 1);
  situation.options.nproc_per_node = "1";
  CHECK_FALSE(situation.plan().omp_threads.has_value());
  situation.options.nproc_per_node = "2";
  situation.facts.environment.emplace_back("OMP_NUM_THREADS=7");
  CHECK_FALSE(situation.plan().omp_threads.has_value());
}

TEST_CASE("the printed plan is the golden one") {
  Situation situation;
  CHECK(describe(situation.plan()) == golden("plan_four_gpus.txt"));
  situation.facts.gpu_count = 0;
  situation.options.nproc_per_node = "2";
  situation.options.backend = "gloo";
  CHECK(describe(situation.plan()) == golden("plan_two_cpu_workers.txt"));
}
