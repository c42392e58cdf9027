#include "launcher/start/plan/worker_command.h"

#include "support/catch.h"
#include "support/situation.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

namespace {

WorkerCommand command(const Situation& situation) {
  const auto result = make_worker_command(situation.options, situation.facts);
  if (!result) FAIL(result.error().message);
  return result.value();
}

// Returns the refusal, such as "127 cannot start …", or "none".
std::string refusal(const Situation& situation) {
  const auto result = make_worker_command(situation.options, situation.facts);
  if (result) return "none";
  return std::to_string(result.error().exit_code) + " " + result.error().message;
}

}  // namespace

TEST_CASE("a native program runs directly with its arguments unchanged") {
  Situation situation;
  situation.options.command = {"./train", "$local_rank", "$$"};
  const WorkerCommand result = command(situation);
  CHECK(result.program == "./train");
  CHECK(result.arguments == situation.options.command);
  CHECK_FALSE(result.local_rank_macro);
  CHECK(result.what == "./train");
}

TEST_CASE("a Python script runs unbuffered under the interpreter") {
  for (const CompatibilityMode mode :
       {CompatibilityMode::native, CompatibilityMode::torchrun, CompatibilityMode::torch_launch}) {
    const WorkerCommand result = command(Situation().mode(mode));
    CHECK(result.program == "/usr/bin/python3");
    CHECK(result.arguments == Words{"/usr/bin/python3", "-u", "train.py", "--epochs", "3"});
    CHECK(result.local_rank_macro == (mode != CompatibilityMode::native));
  }
}

TEST_CASE("a module runs with -m and needs no file") {
  Situation situation;
  situation.options.module = true;
  situation.options.command = {"package.train", "-x"};
  situation.facts.program = {};
  CHECK(command(situation).arguments == Words{"/usr/bin/python3", "-u", "-m", "package.train", "-x"});
}

TEST_CASE("under the name torchrun a script needs neither a suffix nor execute permission") {
  CHECK(command(Situation().mode(CompatibilityMode::torchrun, "train")).arguments ==
        Words{"/usr/bin/python3", "-u", "train", "--epochs", "3"});
}

TEST_CASE("the option --no-python runs the file itself, and --run-path overrides it") {
  Situation situation;
  situation.options.compatibility_mode = CompatibilityMode::torchrun;
  situation.options.no_python = true;
  CHECK(command(situation).arguments == situation.options.command);
  situation.options.run_path = true;
  CHECK(command(situation).program == "/usr/bin/python3");
}

TEST_CASE("the kind of program follows from the compatibility mode and the file name") {
  Options options;
  options.command = {"train.py"};
  CHECK(program_kind(options) == ProgramKind::script);
  options.no_python = true;
  CHECK(program_kind(options) == ProgramKind::executable);
  options.run_path = true;
  CHECK(program_kind(options) == ProgramKind::script);
  options = {};
  options.command = {"train"};
  CHECK(program_kind(options) == ProgramKind::executable);
  options.module = true;
  CHECK(program_kind(options) == ProgramKind::module);
  options = {};
  options.compatibility_mode = CompatibilityMode::torchrun;
  options.command = {"train"};
  CHECK(program_kind(options) == ProgramKind::script);
}

TEST_CASE("a missing interpreter is reported with the places that were searched") {
  Situation situation;
  situation.mode(CompatibilityMode::native);
  situation.facts.interpreter = {};
  situation.facts.interpreter.path = "python3";
  CHECK(refusal(situation) ==
        "127 cannot start train.py: no Python: neither python3 nor python is in PATH. Install Python, or set "
        "PYTHON_EXEC to its path.");
  situation.facts.environment = {"VIRTUAL_ENV=/b"};
  CHECK(refusal(situation) ==
        "127 cannot start train.py: no Python: VIRTUAL_ENV=/b has no bin/python, and neither python3 nor python is in "
        "PATH. Install Python, or set PYTHON_EXEC to its path.");
  situation.facts.environment = {"PYTHON_EXEC=/a/python", "VIRTUAL_ENV=/b"};
  situation.facts.interpreter.path = "/a/python";
  CHECK(refusal(situation) == "127 cannot start /a/python (PYTHON_EXEC): no such file.");
}

TEST_CASE("a virtual environment without Python is skipped with a note") {
  struct Case {
    std::vector<std::string> environment;
    std::string path;
    std::string note;
  };
  for (const Case& one : {Case{{}, "/usr/bin/python3", ""},
                          {{"VIRTUAL_ENV="}, "/usr/bin/python3", ""},
                          {{"VIRTUAL_ENV=/b"}, "/b/bin/python", ""},
                          {{"VIRTUAL_ENV=/b"},
                           "/usr/bin/python3",
                           "VIRTUAL_ENV=/b has no bin/python, so the workers run /usr/bin/python3"},
                          {{"VIRTUAL_ENV=/b", "PYTHON_EXEC=/usr/bin/python3"}, "/usr/bin/python3", ""}}) {
    CAPTURE(one.environment, one.path);
    Situation situation;
    situation.mode(CompatibilityMode::native).facts.environment = one.environment;
    situation.facts.interpreter.path = one.path;
    const LaunchPlan plan = situation.plan();
    CHECK(plan.program == one.path);
    CHECK(mentions(plan.node_notes, "VIRTUAL_ENV") == !one.note.empty());
    CHECK(plan.interpreter_note == one.note);
  }
}

TEST_CASE("a Python in the virtual environment that cannot be executed is an error") {
  Situation situation;
  situation.mode(CompatibilityMode::native).facts.environment = {"VIRTUAL_ENV=/b"};
  situation.facts.interpreter.path = "/b/bin/python";
  situation.facts.interpreter.executable = situation.facts.interpreter.execute_bits = false;
  CHECK(refusal(situation) ==
        "126 cannot start /b/bin/python (VIRTUAL_ENV): not executable. Try chmod +x /b/bin/python.");
}

TEST_CASE("a program that cannot be started gives the exit codes of a shell") {
  struct Case {
    std::string name;
    ProgramFacts facts;
    std::string refusal;
  };
  ProgramFacts fine = Situation().facts.program;
  const auto with = [&](auto change) {
    ProgramFacts facts = fine;
    change(facts);
    return facts;
  };
  const auto absent = with([](ProgramFacts& facts) { facts = {}; });
  const std::vector<Case> cases = {
      {"./trian", with([](ProgramFacts& f) { f = {}, f.suggestion = "./train"; }),
       "127 cannot start ./trian: no such file. Did you mean ./train?"},
      {"trian", absent, "127 cannot start trian: not found in PATH."},
      {"/root/train", with([](ProgramFacts& f) { f = {}, f.denied = true; }),
       "126 cannot start /root/train: permission denied on a directory of its path."},
      {"./train", with([](ProgramFacts& f) { f.is_directory = true; }), "126 cannot start ./train: it is a directory."},
      {"train", with([](ProgramFacts& f) { f.executable = f.execute_bits = false; }),
       "126 cannot start train: not executable. Try chmod +x ./train."},
      {"./train", with([](ProgramFacts& f) { f.executable = false; }),
       "126 cannot start ./train: permission denied (executable for others only, or on a file system mounted noexec)."},
      {"./train", with([](ProgramFacts& f) { f.format = FileFormat::elf, f.foreign_machine = "AArch64"; }),
       "126 cannot start ./train: it is a program for another architecture (AArch64)."},
      {"./train", with([](ProgramFacts& f) { f.format = FileFormat::text; }),
       "126 cannot start ./train: it is neither a program nor a script with a #! line. Add one, such as #!/bin/sh."},
      {"./train", with([](ProgramFacts& f) { f.format = FileFormat::script, f.missing_interpreter = "/bin/zsh"; }),
       "127 cannot start ./train: the interpreter /bin/zsh of its #! line is missing."},
      {"./train", with([](ProgramFacts& f) { f.format = FileFormat::script, f.missing_interpreter = "/bin/sh\r"; }),
       "127 cannot start ./train: the interpreter /bin/sh\\r of its #! line is missing (its lines end as on Windows; "
       "try "
       "dos2unix)."},
      {"./train", with([](ProgramFacts& f) { f.format = FileFormat::elf, f.missing_interpreter = "/lib/ld.so"; }),
       "127 cannot start ./train: its dynamic loader /lib/ld.so is missing (built for another system, or 32-bit "
       "libraries not installed)."},
  };
  for (const Case& one : cases) {
    Situation situation;
    situation.options.command = {one.name};
    situation.facts.program = one.facts;
    CHECK(refusal(situation) == one.refusal);
  }
}

TEST_CASE("a script that Python could not open is rejected before anything starts") {
  Situation situation;
  situation.mode(CompatibilityMode::native, "trian.py");
  situation.facts.program = {};
  situation.facts.program.suggestion = "train.py";
  CHECK(refusal(situation) == "127 cannot start trian.py: no such file. Did you mean train.py?");
  situation.facts.program.found = true;
  CHECK(refusal(situation) == "126 cannot start trian.py: permission denied (not readable).");
  situation.facts.program.readable = situation.facts.program.is_directory = true;
  CHECK(refusal(situation) == "126 cannot start trian.py: it is a directory without a __main__.py.");
  situation.facts.program.is_package = true;
  CHECK(refusal(situation) == "none");
}

TEST_CASE("a native program under the name torchrun is rejected with a hint at --no-python") {
  Situation situation;
  situation.mode(CompatibilityMode::torchrun, "./train");
  situation.facts.program.format = FileFormat::elf;
  CHECK(refusal(situation) ==
        "126 cannot start ./train: it is a native program, not a Python script. Add --no-python.");
}

TEST_CASE("torch.distributed.launch passes the local rank as the script's first argument") {
  Situation situation;
  situation.mode(CompatibilityMode::torch_launch).options.local_rank_argument = true;
  CHECK(command(situation).local_rank_argument);
  CHECK(command(situation).local_rank_argument_at == 3);
  situation.options.module = true;
  CHECK(command(situation).local_rank_argument_at == 4);
}

TEST_CASE("the local rank macro is the one of torchrun") {
  for (const auto& [argument, expected] :
       std::vector<std::pair<std::string, std::string>>{{"log-$local_rank.txt", "log-7.txt"},
                                                        {"${local_rank}x${local_rank}", "7x7"},
                                                        {"$local_rank_", "$local_rank_"},
                                                        {"$local_rank2 $local_ranks", "$local_rank2 $local_ranks"},
                                                        {"$LOCAL_RANK", "$LOCAL_RANK"},
                                                        {"$$local_rank", "$local_rank"},
                                                        {"$$$local_rank", "$7"},
                                                        {"${local_rank", "${local_rank"},
                                                        {"100$ $1 $", "100$ $1 $"},
                                                        {"$$", "$"},
                                                        {"", ""}}) {
    CHECK(substitute_local_rank(argument, 7) == expected);
  }
}

TEST_CASE("a program that is not found may be a misspelled subcommand") {
  const auto message = [](std::vector<std::string> line, const std::string& suggestion = "") {
    Situation situation;
    situation.mode(CompatibilityMode::native).options.command_line = {"ddplaunch"};
    situation.options.command_line.insert(situation.options.command_line.end(), line.begin(), line.end());
    situation.options.command = {line.back()};
    situation.facts.program = {};
    situation.facts.program.suggestion = suggestion;
    const StartFailure failure = situation.failure();
    CHECK(failure.exit_code == 127);
    return failure.message;
  };
  CHECK(message({"tpo"}) == "cannot start tpo: not found in PATH. Did you mean ddplaunch top?");
  CHECK(message({"reprot"}) == "cannot start reprot: not found in PATH. Did you mean ddplaunch report?");
  CHECK(message({"tpo"}, "./tpo") == "cannot start tpo: not found in PATH. Did you mean ./tpo?");
  CHECK(message({"train"}) == "cannot start train: not found in PATH.");
  // Only the first word may be a subcommand.
  CHECK(message({"-q", "tpo"}) == "cannot start tpo: not found in PATH.");
  CHECK(message({"./tpo"}) == "cannot start ./tpo: no such file.");
}
