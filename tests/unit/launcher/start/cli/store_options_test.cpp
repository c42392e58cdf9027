#include "launcher/start/cli/store_options.h"

#include "base/text.h"
#include "launcher/start/cli/help_text.h"
#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;
using Action = StoreOptions::Action;

namespace {

ParsedCommand parse(const Words& words) {
  std::vector<const char*> argv{"ddplaunch", "store"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_command_line(static_cast<int>(argv.size()), argv.data(), Words{"PET_STORE_LIMIT=keys=1", "PET_X=1"});
}

StoreOptions options(const Words& words) {
  const auto result = parse(words);
  if (const auto* error = std::get_if<UsageError>(&result)) FAIL(error->message);
  return std::get<StoreOptions>(result);
}

std::string mistake(const Words& words) {
  const auto result = parse(words);
  REQUIRE(std::holds_alternative<UsageError>(result));
  return std::get<UsageError>(result).message;
}

}  // namespace

TEST_CASE("ddplaunch store serves on this host at torchrun's port by default") {
  CHECK(options({}) == StoreOptions{});
  CHECK(options({}).host == "127.0.0.1");
  CHECK(options({}).port == 29'500);
  CHECK(options({"--store-open"}).host == "::");
  CHECK(options({"--host", "10.0.0.1", "--store-open"}).host == "10.0.0.1");
}

TEST_CASE("the options of ddplaunch store serve are parsed") {
  const StoreOptions all = options({"--host=node0", "--port", "0", "--port_file=/p", "--auth-token-file=/t",
                                    "--store-limit=keys=7", "--store-limit", "connections=3"});
  CHECK(all.action == Action::serve);
  CHECK(all.host == "node0");
  CHECK(all.port == 0);
  CHECK(all.port_file == "/p");
  CHECK(all.auth_token_file == "/t");
  CHECK_FALSE(all.open);
  CHECK(all.limits.keys == 7);
  CHECK(all.limits.connections == 3);
  CHECK(options({"--port=1", "--port=2"}).port == 2);
}

TEST_CASE("the address of an inspected or joined store may have a port") {
  struct Place {
    const char* word;
    const char* host;
    int port;
  };
  for (const Place& place : {Place{"node0:1", "node0", 1}, Place{"node0", "node0", 29'500}, Place{"[::1]:7", "::1", 7},
                             Place{"::1", "::1", 29'500}}) {
    CAPTURE(place.word);
    const StoreOptions inspect = options({"--inspect", place.word, "--json"});
    CHECK(inspect.action == Action::inspect);
    CHECK(inspect.json);
    CHECK(inspect.host == place.host);
    CHECK(inspect.port == place.port);
    CHECK(options({"--join", place.word}).action == Action::join);
  }
}

TEST_CASE("invalid arguments of ddplaunch store are usage errors that say what to do") {
  struct Row {
    Words words;
    const char* message;
  };
  const std::vector<Row> rows = {
      {{"--port=x"}, "--port=x is not a number from 0 to 65535."},
      {{"--host="}, "--host= is empty. Name an address of this node."},
      {{"--port-file="}, "--port-file= is empty. Name a file."},
      {{"--inspect="}, "--inspect= is not an endpoint."},
      {{"--inspect", "a:0"}, "--inspect=a:0 has no port. Add the port of the store, 29500 by default."},
      {{"--store-limit=keys=0"}, "--store-limit=keys=0: keys is not a number"},
      {{"--insp"}, "unknown option --insp. Did you mean --inspect?"},
      {{"--nproc-per-node=2"}, "unknown option --nproc-per-node."},
      {{"--auth-token=secret"}, "unknown option --auth-token."},
      {{"--json"}, "--json requires --inspect. Add --inspect, or leave this option out."},
      {{"--join=a", "--json"}, "--json cannot be combined with --join. Leave one out."},
      {{"--inspect=a", "--port=7"}, "--port=7 cannot be combined with --inspect. Leave one out."},
      {{"--inspect=a", "--join=b"}, "--inspect=a cannot be combined with --join. Leave one out."},
      {{"--join=b", "--inspect=a"}, "--join=b cannot be combined with --inspect. Leave one out."},
      {{"--inspect=a", "--store-open"}, "--store-open cannot be combined with --inspect. Leave one out."},
      {{"train.py"}, "ddplaunch store starts no program. Remove 'train.py'."},
      {{"--", "x"}, "ddplaunch store starts no program. Remove 'x'."},
  };
  for (const Row& row : rows) {
    CHECK_THAT(mistake(row.words), Catch::StartsWith(row.message) && Catch::EndsWith(" See ddplaunch store --help") &&
                                       !Catch::Contains("secret"));
  }
}

TEST_CASE("the help of ddplaunch store lists each of its options in at most 80 columns") {
  const auto help = parse({"--help", "--nonsense"});
  REQUIRE(std::holds_alternative<Information>(help));
  const std::string& text = std::get<Information>(help).text;
  CHECK(text == subcommand_help(*find_subcommand("store")));
  for (const OptionInfo& option : store_options()) {
    CHECK(text.find("--" + option.name()) != std::string::npos);
  }
  for (const std::string& line : ddp::base::split(text, '\n')) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
  CHECK(std::get<Information>(parse({"-h"})).text == text);
  CHECK(std::get<Information>(parse({"help"})).text == text);
}
