#include "launcher/start/cli/variables.h"

#include "launcher/start/cli/job_options.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

namespace {

const OptionList kOptions = job_options();

VariableSettings read(const Lines& environment, CompatibilityMode mode = CompatibilityMode::native) {
  auto result = settings_of_variables(environment, kOptions, mode);
  if (!result) FAIL(result.error().message);
  return std::move(result).value();
}

}  // namespace

TEST_CASE("each option that has a variable is read from it") {
  for (const OptionInfo& option : kOptions) {
    const std::string line = variable_of(option.name()) + "=1";
    CAPTURE(line);
    const VariableSettings result = read({line});
    if (!option.variable.empty()) {
      REQUIRE(result.settings.size() == 1);
      CHECK(result.settings[0].option == &option);
      CHECK(result.settings[0].value == "1");
      CHECK(result.settings[0].subject == line);
      CHECK(result.warnings.empty());
    } else {
      CHECK(result.settings.empty());
      REQUIRE(result.warnings.size() == 1);
      CHECK(result.warnings[0].starts_with(variable_of(option.name()) + " has no effect: --" + option.name() +
                                           " is read from the command line"));
    }
  }
  CHECK(read({"PET_SHUTDOWN_TIMEOUT=9"}).settings.at(0).option->name() == "grace");
}

TEST_CASE("the variable of a flag must be a whole number") {
  CHECK(read({"PET_STANDALONE=0"}).settings[0].value == "0");
  CHECK(read({"PET_STANDALONE=7"}).settings[0].value == "1");
  CHECK(read({"PET_STANDALONE=-1"}).settings[0].value == "1");
  for (const char* text : {"true", "", "on", "1.5"}) {
    const std::string line = std::string("PET_STANDALONE=") + text;
    CHECK(settings_of_variables(Lines{line}, kOptions, CompatibilityMode::native).error().message ==
          line + " is not a whole number. Use 1 (on) or 0 (off).");
  }
}

TEST_CASE("an unknown variable that resembles a known one is reported") {
  CHECK(read({"PET_NPROC_PER_NOD=2"}).warnings ==
        Lines{"PET_NPROC_PER_NOD has no effect: no option has this name; did you mean PET_NPROC_PER_NODE?"});
  CHECK(read({"PET_nproc_per_node=2"}).warnings.size() == 1);
  CHECK(read({"PET_NO_TAG=1"}).warnings.size() == 1);
  CHECK(read({"CARPET_NNODES=2", "PETRA=1", "NNODES=x", "nonsense"}).warnings.empty());
}

TEST_CASE("torchrun's shutdown timeout is the default in its compatibility mode only") {
  const Lines environment = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=60"};
  CHECK(read(environment).defaults.empty());
  const auto defaults = read(environment, CompatibilityMode::torchrun).defaults;
  REQUIRE(defaults.size() == 1);
  CHECK(defaults[0].option->name() == "grace");
  CHECK(defaults[0].value == "60");
  CHECK(defaults[0].subject == environment[0]);
}

TEST_CASE("a variable applies unless the command line sets the same option") {
  const std::vector<Setting> variables = {{find_option("nnodes", kOptions), "2", "PET_NNODES=2"},
                                          {find_option("node-rank", kOptions), "1", "PET_NODE_RANK=1"}};
  CHECK(used_variables(variables, {}) == "PET_NNODES=2, PET_NODE_RANK=1");
  CHECK(used_variables(variables, std::vector<Setting>{{find_option("nnodes", kOptions), "3", "--nnodes=3"}}) ==
        "PET_NODE_RANK=1");
  CHECK(used_variables({}, variables).empty());
}
