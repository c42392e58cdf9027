#include "launcher/start/plan/preload_plan.h"

#include "support/catch.h"

namespace ddp::launcher {
namespace {

std::string reason(const std::vector<std::string>& arguments, const std::string& program = "/usr/bin/python3") {
  LaunchPlan plan;
  plan.what = "train.py";
  plan.program = program;
  plan.arguments = arguments;
  plan.python_hook = "/hook";
  return no_preload_reason(plan);
}

TEST_CASE("workers started by Python itself can be forked") {
  CHECK(reason({"python3", "-u", "train.py", "-I"}).empty());
  CHECK(reason({"python3", "-uX", "dev", "-W", "error", "-m", "train", "-S"}).empty());
  CHECK(reason({"python3.12", "-c", "pass"}, "/opt/venv/bin/python3.12").empty());
}

TEST_CASE("forking is impossible with Python options that skip ddplaunch's start-up code") {
  for (const char* option : {"-I", "-E", "-S", "-uS", "-sE"}) {
    CHECK_THAT(reason({"python3", option, "train.py"}), Catch::Contains("does not run ddplaunch's code"));
  }
}

TEST_CASE("workers of other programs cannot be forked") {
  CHECK_THAT(reason({"bash", "train.sh"}, "/usr/bin/bash"), Catch::Contains("not started by Python itself"));
  CHECK_THAT(reason({"python3"}), Catch::Contains("standard input"));
  CHECK_THAT(reason({"python3", "-"}), Catch::Contains("standard input"));
}

TEST_CASE("workers started by uv can be forked if their program is recognised") {
  const auto reason_of = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"uv", "run"});
    return reason(words, "/usr/bin/uv");
  };
  CHECK(reason_of({"train.py"}).empty());
  CHECK(reason_of({"--extra=cpu", "--", "src/train.py", "-I"}).empty());
  CHECK(reason_of({"--active", "python3.12", "-u", "-m", "train"}).empty());
  CHECK_THAT(reason_of({"python", "-I", "train.py"}), Catch::Contains("with -I"));
  CHECK_THAT(reason_of({"python", "-"}), Catch::Contains("standard input"));
  for (const char* option : {"--with", "--python", "-m", "-p"}) {
    CHECK_THAT(reason_of({option, "python3.11", "train.py"}),
               Catch::StartsWith(std::string("it is not known whether ") + option));
  }
  CHECK_THAT(reason_of({"--active", "bash"}), Catch::StartsWith("uv run starts bash"));
  CHECK_THAT(reason_of({"--active"}), Catch::StartsWith("uv run starts nothing"));
  CHECK_THAT(reason({"uv", "pip", "train.py"}, "/usr/bin/uv"), Catch::Contains("not started by Python itself"));
}

TEST_CASE("Python is queried without running the program") {
  const auto probe = [](const std::string& program, const std::vector<std::string>& arguments) {
    LaunchPlan plan;
    plan.program = program;
    plan.arguments = arguments;
    return python_probe(plan);
  };
  using Words = std::vector<std::string>;
  CHECK(probe("/usr/bin/python3", {"python3", "-u", "train.py"}) == Words{"/usr/bin/python3", "-c", ""});
  CHECK(probe("/bin/uv", {"uv", "run", "--a=b", "train.py"}) == Words{"/bin/uv", "run", "--a=b", "python", "-c", ""});
  CHECK(probe("/bin/uv", {"uv", "run", "--", "python3.12", "-m", "train"}) ==
        Words{"/bin/uv", "run", "--", "python3.12", "-c", ""});
}

TEST_CASE("a plan whose workers differ before their program begins cannot fork them") {
  LaunchPlan plan;
  plan.program = "/usr/bin/python3";
  plan.arguments = {"python3", "-u", "train_${local_rank}.py"};
  CHECK_THAT(no_preload_reason(plan), Catch::Contains("DDP_TORCH=0"));
  plan.python_hook = "/hook";
  CHECK(no_preload_reason(plan).empty());
  plan.local_rank_macro = true;
  CHECK_THAT(no_preload_reason(plan), Catch::Contains("the arguments depend on the local rank"));
  plan.local_rank_macro = false;
  plan.bindings.resize(2);
  CHECK_THAT(no_preload_reason(plan), Catch::StartsWith("OMP_NUM_THREADS is not set"));
  plan.inherited_environment = {"OMP_NUM_THREADS=4"};
  CHECK(no_preload_reason(plan).empty());
}

}  // namespace
}  // namespace ddp::launcher
