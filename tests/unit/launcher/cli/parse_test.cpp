#include "launcher/cli/parse.h"

#include <catch2/catch.hpp>

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

std::variant<Options, Information, UsageError> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ddplaunch");
  return parse_command_line(static_cast<int>(words.size()), words.data());
}

Options options(const std::vector<const char*>& words) {
  const auto result = parse(words);
  if (const auto* error = std::get_if<UsageError>(&result)) FAIL(error->message);
  return std::get<Options>(result);
}

std::string mistake(const std::vector<const char*>& words) {
  const auto result = parse(words);
  REQUIRE(std::holds_alternative<UsageError>(result));
  return std::get<UsageError>(result).message;
}

}  // namespace

TEST_CASE("an unknown option is refused with the nearest match") {
  CHECK(mistake({"--nproc-per-nod=4", "./train"}) ==
        "unknown option --nproc-per-nod. Did you mean --nproc-per-node? See ddplaunch --help");
  CHECK(mistake({"--nproc_per_nod", "4", "./train"}) ==
        "unknown option --nproc_per_nod. Did you mean --nproc_per_node? See ddplaunch --help");
  CHECK(mistake({"--quite", "./train"}) == "unknown option --quite. Did you mean --quiet? See ddplaunch --help");
  CHECK(mistake({"--zzzzzzzz", "./train"}) == "unknown option --zzzzzzzz. See ddplaunch --help");
}

TEST_CASE("an option that is cut short is completed in the message") {
  CHECK(mistake({"--nproc=2", "./train"}).find("Did you mean --nproc") != std::string::npos);
}

TEST_CASE("an option without its value is told") {
  CHECK(mistake({"--grace"}).find("--grace") != std::string::npos);
  CHECK(mistake({"--quiet=7x", "p"}).find("quiet") != std::string::npos);
}

TEST_CASE("an unknown option after known ones with values is the one that is named") {
  CHECK(mistake({"--nproc-per-node", "2", "--bakend=gloo", "./train"}).find("--backend?") != std::string::npos);
}

TEST_CASE("a missing program is told with the usage") {
  CHECK(mistake({}).starts_with("no program given. Usage: ddplaunch [options] program"));
  CHECK(mistake({"--nproc-per-node=2"}).starts_with("no program given."));
}

TEST_CASE("an unknown backend is refused") {
  CHECK(mistake({"--backend=ncll", "./train"}).find("ncll") != std::string::npos);
}

TEST_CASE("a grace that is no number of seconds is refused") {
  for (const char* grace : {"--grace=soon", "--grace=-1", "--grace=nan", "--grace=1e9", "--grace=5s"}) {
    CAPTURE(grace);
    CHECK(mistake({grace, "./train"}).starts_with("--grace="));
  }
}

TEST_CASE("both spellings of an option mean the same") {
  CHECK(options({"--nproc-per-node=2", "p"}).nproc_per_node == "2");
  CHECK(options({"--nproc_per_node=2", "p"}).nproc_per_node == "2");
  CHECK(options({"--nproc_per_node", "2", "p"}).nproc_per_node == "2");
  CHECK(options({"--rdzv_id=a", "p"}).run_id == "a");
}

TEST_CASE("everything after the program belongs to the program") {
  using Words = std::vector<std::string>;
  CHECK(options({"--nproc-per-node=2", "p", "--nproc-per-node=9", "-q", "--help"}).command ==
        Words{"p", "--nproc-per-node=9", "-q", "--help"});
  CHECK(options({"p", "--", "-x"}).command == Words{"p", "--", "-x"});
  CHECK(options({"--", "p", "--version"}).command == Words{"p", "--version"});
  CHECK(options({"-q", "p", "", "a b", "--x=y=z"}).command == Words{"p", "", "a b", "--x=y=z"});
  CHECK(options({"p", "[1,2]", "[]", "{}", "%%", "'q'", "\"", "--", "-"}).command ==
        Words{"p", "[1,2]", "[]", "{}", "%%", "'q'", "\"", "--", "-"});
  CHECK(options({"--grace", "7", "--", "-weird", "-q"}).command == Words{"-weird", "-q"});
}

TEST_CASE("options have the documented defaults") {
  const Options defaults = options({"p"});
  CHECK(defaults.nproc_per_node.empty());
  CHECK(defaults.backend.empty());
  CHECK(defaults.grace == 5s);
  CHECK(defaults.device_visibility.empty());
  CHECK_FALSE(defaults.quiet);
  CHECK_FALSE(defaults.dry_run);
}

TEST_CASE("a fraction of a second is a grace") {
  CHECK(options({"--grace=0.25", "p"}).grace == 250ms);
}

TEST_CASE("help and version are information and not mistakes") {
  const auto help = parse({"--help"});
  REQUIRE(std::holds_alternative<Information>(help));
  CHECK(std::get<Information>(help).text.find("--nproc-per-node") != std::string::npos);
  const auto version = parse({"--version"});
  REQUIRE(std::holds_alternative<Information>(version));
  CHECK(std::get<Information>(version).text.starts_with("ddplaunch "));
}
