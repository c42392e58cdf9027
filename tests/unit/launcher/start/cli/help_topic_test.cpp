#include "launcher/start/cli/help_topic.h"

#include "base/text.h"
#include "launcher/run/ranks/verdict.h"
#include "launcher/start/cli/help_text.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

namespace {

std::string help(const Words& words) {
  const auto text = help_on(words);
  REQUIRE(text);
  return text.value();
}

std::string mistake(const Words& words) {
  const auto text = help_on(words);
  REQUIRE_FALSE(text);
  return text.error().message;
}

}  // namespace

TEST_CASE("ddplaunch help without a topic prints the same as --help") {
  CHECK(help({}) == help_text("ddplaunch"));
}

TEST_CASE("ddplaunch help SUBCOMMAND prints the subcommand's own help") {
  for (const Subcommand& each : subcommands()) {
    CAPTURE(each.name);
    CHECK(help({each.name}).starts_with(subcommand_help(each)));
  }
  CHECK(help({"launch"}).starts_with("Usage: ddplaunch launch [options]"));
  CHECK(help({"top"}) == subcommand_help(*find_subcommand("top")));
  CHECK(help({"report"}).ends_with("There is an option of this name, too: ddplaunch help --report\n"));
}

TEST_CASE("ddplaunch help OPTION prints the option's entry of --help in any spelling") {
  const OptionList options = job_options();
  const std::string entry = "Options of ddplaunch:\n" + option_lines(*find_option("max-restarts", options));
  for (const char* word : {"max-restarts", "--max-restarts", "max_restarts", "--max_restarts", "--max-restarts=3"}) {
    CAPTURE(word);
    CHECK(help({word}) == entry);
  }
  CHECK_THAT(help({"preload"}), Catch::StartsWith("Options of ddplaunch:\n      --preload MODULE,...|auto|off") &&
                                    Catch::Contains("docs/how-to/start-faster.md"));
  CHECK_THAT(help({"--report"}), Catch::Contains("--report FILE") && !Catch::Contains("Usage"));
  CHECK_THAT(help({"-m"}), Catch::Contains("-m, --module"));
  CHECK_THAT(help({"no-tag"}), Catch::Contains("--tag TEMPLATE, --no-tag"));
  CHECK_THAT(help({"interval"}), Catch::StartsWith("Options of ddplaunch top:\n      --interval SECONDS"));
  CHECK_THAT(help({"json"}),
             Catch::Contains("Options of ddplaunch:\n") && Catch::Contains("Options of ddplaunch ls:\n"));
}

TEST_CASE("ddplaunch help for a diagnosis code names the page that explains it") {
  for (int kind = 0; kind <= static_cast<int>(VerdictKind::gpu_behind); ++kind) {
    const std::string code(code_of(static_cast<VerdictKind>(kind)));
    CAPTURE(code);
    CHECK_THAT(help({code}),
               Catch::StartsWith(code + " is a diagnosis") && Catch::Contains("docs/reference/diagnoses.md"));
    CHECK(help({code.substr(4)}) == help({code}));
  }
  CHECK(help({"ddp-h05"}) == help({"H05"}));
  CHECK_FALSE(help_on(Words{"DDP-H11"}));
  CHECK_FALSE(help_on(Words{"H00"}));
}

TEST_CASE("ddplaunch help searches other words in the help of all options") {
  CHECK_THAT(help({"perfetto"}), Catch::Contains("--trace FILE"));
  CHECK_THAT(help({"core", "dumps"}), Catch::Contains("--core LIMIT") && !Catch::Contains("--gpus"));
  CHECK_THAT(mistake({"core", "perfetto"}),
             Catch::StartsWith("no subcommand, option, diagnosis or known error is named 'core perfetto'"));
}

TEST_CASE("an unknown word is an error that names the nearest topic") {
  CHECK_THAT(mistake({"tpo"}), Catch::EndsWith("Did you mean top?"));
  CHECK_THAT(mistake({"--max-restatrs"}), Catch::EndsWith("Did you mean max-restarts?"));
  CHECK_THAT(mistake({"xyzzy"}), Catch::EndsWith("and no help has these words."));
  const char* argv[] = {"ddplaunch", "help", "tpo"};
  const auto parsed = parse_command_line(3, argv, {});
  CHECK_THAT(std::get<UsageError>(parsed).message, Catch::EndsWith("Did you mean top? See ddplaunch --help"));
}
