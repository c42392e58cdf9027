#include "launcher/start/cli/explain_options.h"

#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

namespace {

ParsedCommand parse(const Words& words) {
  std::vector<const char*> argv = {"ddplaunch"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data(), {});
}

std::string mistake(const Words& words) {
  const auto parsed = parse(words);
  REQUIRE(std::holds_alternative<UsageError>(parsed));
  return std::get<UsageError>(parsed).message;
}

}  // namespace

TEST_CASE("ddplaunch explain accepts files, directories and standard input") {
  CHECK(std::get<ExplainOptions>(parse({"explain", "a.log", "logs", "-"})) ==
        ExplainOptions{{"a.log", "logs", "-"}, false});
  CHECK(std::get<ExplainOptions>(parse({"explain", "a.log", "--json"})) == ExplainOptions{{"a.log"}, true});
  CHECK(std::holds_alternative<Information>(parse({"explain", "--help"})));
  CHECK(std::get<Options>(parse({"./explain"})).command == Words{"./explain"});
}

TEST_CASE("ddplaunch explain without a log is an error") {
  CHECK_THAT(mistake({"explain"}), Catch::StartsWith("no log given. Usage: ddplaunch explain FILE"));
  CHECK_THAT(mistake({"explain", ""}), Catch::StartsWith("the name of a log is empty."));
  CHECK_THAT(mistake({"explain", "--jsn", "a"}), Catch::StartsWith("unknown option --jsn. Did you mean --json?"));
}
