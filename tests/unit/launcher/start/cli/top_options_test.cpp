#include "launcher/start/cli/top_options.h"

#include "base/text.h"
#include "launcher/start/cli/help_text.h"
#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

namespace {

ParsedCommand parse(const Words& words) {
  std::vector<const char*> argv = {"ddplaunch", "top"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data(), {});
}

TopOptions options(const Words& words) {
  const auto parsed = parse(words);
  REQUIRE(std::holds_alternative<TopOptions>(parsed));
  return std::get<TopOptions>(parsed);
}

std::string mistake(const Words& words) {
  const auto parsed = parse(words);
  REQUIRE(std::holds_alternative<UsageError>(parsed));
  return std::get<UsageError>(parsed).message;
}

}  // namespace

TEST_CASE("ddplaunch top shows the only job by default, twice per second") {
  CHECK(options({}) == TopOptions());
}

TEST_CASE("the job of ddplaunch top may stand before or after the options") {
  TopOptions expected;
  expected.job = "night-run";
  expected.once = expected.json = expected.no_color = true;
  expected.interval = 1500ms;
  expected.order = RankOrder::waited_for;
  expected.filter = "node1";
  const Words given = {"--once", "--json", "--no-color", "--interval=1.5", "--sort=waited-for", "--filter=node1"};
  Words before = given;
  before.insert(before.begin(), "night-run");
  Words after = given;
  after.push_back("night-run");
  CHECK(options(before) == expected);
  CHECK(options(after) == expected);
  CHECK(options({"4321"}).job == "4321");
}

TEST_CASE("each sort order of ddplaunch top has a name on the command line") {
  int order = 0;
  for (const std::string& name : ddp::base::split(kNamesOf<RankOrder>, ' ')) {
    CHECK(options({"--sort", name}).order == static_cast<RankOrder>(order++));
  }
  CHECK(order == static_cast<int>(RankOrder::output) + 1);
}

TEST_CASE("invalid arguments of ddplaunch top are usage errors that say what to do") {
  CHECK_THAT(mistake({"1", "2"}), Catch::StartsWith("ddplaunch top shows one job. Remove '2'."));
  CHECK_THAT(mistake({"--interval=0"}), Catch::StartsWith("--interval=0 is too short. Use 0.1 or more."));
  CHECK_THAT(mistake({"--interval=x"}), Catch::StartsWith("--interval=x"));
  CHECK_THAT(mistake({"--sort=height"}), Catch::Contains("waited-for"));
  CHECK_THAT(mistake({"--filter="}), Catch::StartsWith("--filter= is empty."));
  CHECK_THAT(mistake({"--onec"}), Catch::StartsWith("unknown option --onec. Did you mean --once?") &&
                                      Catch::EndsWith(" See ddplaunch top --help"));
}

TEST_CASE("the help of ddplaunch top lists each of its options in at most 80 columns") {
  const auto help = parse({"--help"});
  REQUIRE(std::holds_alternative<Information>(help));
  const std::string& text = std::get<Information>(help).text;
  CHECK(text == subcommand_help(*find_subcommand("top")));
  for (const OptionInfo& option : top_options()) CHECK(text.find("--" + option.name()) != std::string::npos);
  for (const std::string& line : ddp::base::split(text, '\n')) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
}
