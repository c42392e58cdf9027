#include "launcher/start/cli/ls_options.h"

#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

namespace {

ParsedCommand parse(const Words& words, const char* name = "ddplaunch") {
  std::vector<const char*> argv = {name};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data(), {});
}

std::string mistake(const Words& words) {
  const auto parsed = parse(words);
  REQUIRE(std::holds_alternative<UsageError>(parsed));
  return std::get<UsageError>(parsed).message;
}

}  // namespace

TEST_CASE("ddplaunch ls accepts one option and no arguments") {
  CHECK(std::get<LsOptions>(parse({"ls"})) == LsOptions{false});
  CHECK(std::get<LsOptions>(parse({"ls", "--json"})) == LsOptions{true});
  CHECK(std::holds_alternative<Information>(parse({"ls", "-h"})));
  CHECK(mistake({"ls", "/tmp"}) ==
        "ddplaunch ls lists all jobs. Remove '/tmp'. To start a program named ls, write ./ls or its path. See "
        "ddplaunch ls --help");
  CHECK_THAT(mistake({"ls", "-l"}), Catch::StartsWith("unknown option -l."));
}

TEST_CASE("a program named ls, top or help can be started by its path, after run, and as torchrun") {
  for (const std::string word : {"ls", "top", "help"}) {
    CAPTURE(word);
    CHECK(std::get<Options>(parse({"./" + word})).command == Words{"./" + word});
    CHECK(std::get<Options>(parse({"run", word})).command == Words{word});
    CHECK(std::get<Options>(parse({word}, "torchrun")).command == Words{word});
  }
}
