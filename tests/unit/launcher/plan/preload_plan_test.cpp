#include "launcher/plan/preload_plan.h"

#include "support/catch.h"

namespace ddp::launcher {
namespace {

std::string reason(const std::vector<std::string>& arguments, const std::string& program = "/usr/bin/python3") {
  LaunchPlan plan;
  plan.what = "train.py";
  plan.program = program;
  plan.arguments = arguments;
  plan.python_hook = "/hook";
  ProgramFacts python;
  python.format = FileFormat::elf;
  return no_preload_reason(plan, python);
}

TEST_CASE("workers that Python itself starts can be forked") {
  CHECK(reason({"python3", "-u", "train.py", "-I"}).empty());
  CHECK(reason({"python3", "-uX", "dev", "-W", "error", "-m", "train", "-S"}).empty());
  CHECK(reason({"python3.12", "-c", "pass"}, "/opt/venv/bin/python3.12").empty());
}

TEST_CASE("options with which Python does not run ddplaunch's code are refused") {
  for (const char* option : {"-I", "-E", "-S", "-uS", "-sE"}) {
    CHECK_THAT(reason({"python3", option, "train.py"}), Catch::Contains("does not run ddplaunch's code"));
  }
}

TEST_CASE("other programs are refused") {
  CHECK_THAT(reason({"bash", "train.sh"}, "/usr/bin/bash"), Catch::Contains("not started by Python itself"));
  CHECK_THAT(reason({"python3"}), Catch::Contains("standard input"));
  CHECK_THAT(reason({"python3", "-"}), Catch::Contains("standard input"));
  LaunchPlan plan;
  plan.program = "/opt/site/python3";
  plan.arguments = {"python3", "train.py"};
  ProgramFacts script;
  script.format = FileFormat::script;
  CHECK_THAT(no_preload_reason(plan, script), Catch::Contains("a program that starts one"));
  plan.python_hook = "/hook";
  plan.program = "/home/me/.pyenv/shims/python3";
  CHECK(no_preload_reason(plan, script).empty());
}

TEST_CASE("workers that uv starts can be forked, if their program is recognized") {
  const auto reason_of = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"uv", "run"});
    return reason(words, "/usr/bin/uv");
  };
  CHECK(reason_of({"train.py"}).empty());
  CHECK(reason_of({"--extra=cpu", "--", "src/train.py", "-I"}).empty());
  CHECK(reason_of({"--active", "python3.12", "-u", "-m", "train"}).empty());
  CHECK_THAT(reason_of({"python", "-I", "train.py"}), Catch::Contains("with -I"));
  CHECK_THAT(reason_of({"python", "-"}), Catch::Contains("standard input"));
  for (const char* first : {"torch", "bash", "-m", "-"}) {
    CHECK_THAT(reason_of({"--with", first, "train.py"}), Catch::StartsWith(std::string("uv run starts ") + first));
  }
  CHECK_THAT(reason_of({"--with"}), Catch::StartsWith("uv run starts "));
  CHECK_THAT(reason({"uv", "pip", "train.py"}, "/usr/bin/uv"), Catch::Contains("not started by Python itself"));
}

TEST_CASE("a plan whose workers differ before their program begins is refused") {
  LaunchPlan plan;
  plan.program = "/usr/bin/python3";
  plan.arguments = {"python3", "-u", "train_${local_rank}.py"};
  ProgramFacts python;
  python.format = FileFormat::elf;
  CHECK_THAT(no_preload_reason(plan, python), Catch::Contains("DDP_TORCH=0"));
  plan.python_hook = "/hook";
  CHECK(no_preload_reason(plan, python).empty());
  plan.local_rank_macro = true;
  CHECK_THAT(no_preload_reason(plan, python), Catch::Contains("depends on the local rank"));
  plan.local_rank_macro = false;
  plan.bindings.resize(2);
  CHECK_THAT(no_preload_reason(plan, python), Catch::StartsWith("OMP_NUM_THREADS is not set"));
  plan.inherited_environment = {"OMP_NUM_THREADS=4"};
  CHECK(no_preload_reason(plan, python).empty());
}

}  // namespace
}  // namespace ddp::launcher
