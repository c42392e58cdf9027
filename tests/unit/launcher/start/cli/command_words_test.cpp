#include "launcher/start/cli/command_words.h"

#include "launcher/start/cli/job_options.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

namespace {

const OptionList kOptions = job_options();

CommandWords read(const Words& words, CompatibilityMode mode = CompatibilityMode::native) {
  auto result = read_words(words, kOptions, mode);
  if (!result) FAIL(result.error().message);
  return std::move(result).value();
}

std::string mistake(const Words& words, CompatibilityMode mode = CompatibilityMode::native) {
  const auto result = read_words(words, kOptions, mode);
  REQUIRE_FALSE(result.ok());
  return result.error().message;
}

void expect_one(const Words& words, const std::string& name, const std::string& value,
                CompatibilityMode mode = CompatibilityMode::native) {
  CAPTURE(words);
  const CommandWords result = read(words, mode);
  REQUIRE(result.settings.size() == 1);
  CHECK(result.settings[0].option->name() == name);
  CHECK(result.settings[0].value == value);
  CHECK(result.program == Words{"p"});
}

}  // namespace

TEST_CASE("each option is accepted in both spellings, with its value attached or separate") {
  for (const OptionInfo& option : kOptions) {
    if (option.name() == "help") continue;
    for (const std::string& name : option.names) {
      for (const std::string& word : {"--" + name, "--" + with_underscores(name)}) {
        if (option.is_negation(name)) {
          expect_one({word, "p"}, option.name(), option.is_flag() ? "0" : "");
        } else if (option.is_flag()) {
          expect_one({word, "p"}, option.name(), "1");
          CHECK(mistake({word + "=1", "p"}) == word + " takes no value. Write " + word + " alone.");
        } else if (!option.implied.empty()) {
          expect_one({word, "p"}, option.name(), option.implied);
          expect_one({word, option.choices.back(), "p"}, option.name(), option.choices.back());
          expect_one({word + "=v", "p"}, option.name(), "v");
        } else {
          expect_one({word, "v", "p"}, option.name(), "v");
          expect_one({word + "=v", "p"}, option.name(), "v");
          expect_one({word + "=", "p"}, option.name(), "");
          expect_one({word, "", "p"}, option.name(), "");
          expect_one({word + "=[a=b],{}", "p"}, option.name(), "[a=b],{}");
          CHECK(mistake({word}) == word + " needs a value: " + word + "=" + option.value_name + ".");
        }
      }
    }
  }
}

TEST_CASE("short options are accepted alone, combined and with an attached value") {
  expect_one({"-m", "p"}, "module", "1");
  expect_one({"-r", "3", "p"}, "redirects", "3");
  expect_one({"-r3", "p"}, "redirects", "3");
  expect_one({"-r=3", "p"}, "redirects", "3");
  const CommandWords together = read({"-qmt", "0:1,12:3", "p"});
  REQUIRE(together.settings.size() == 3);
  CHECK(together.settings[2].value == "0:1,12:3");
  CHECK(mistake({"-r"}) == "-r needs a value: -r STREAMS.");
  CHECK(mistake({"-x", "p"}) == "unknown option -x.");
  CHECK(mistake({"-qx", "p"}) == "unknown option -x in -qx.");
  CHECK(mistake({"-q=1", "p"}) == "-q takes no value. Write -q alone.");
}

TEST_CASE("an option in the place of a value is an error unless it is attached with =") {
  CHECK(mistake({"--rdzv-id", "--standalone", "p"}) ==
        "--rdzv-id needs a value, but the option --standalone comes next. If that is the value, write "
        "--rdzv-id=--standalone.");
  CHECK(mistake({"--rdzv-id", "-q", "p"}).find("the option -q comes next") != std::string::npos);
  expect_one({"--rdzv-id=--standalone", "p"}, "rdzv-id", "--standalone");
  expect_one({"--node-rank", "-1", "p"}, "node-rank", "-1");
}

TEST_CASE("all words from the program onwards are left to the program") {
  CHECK(read({"p", "--grace", "x", "--", "-q"}).program == Words{"p", "--grace", "x", "--", "-q"});
  CHECK(read({"-q", "--", "-p", "--", "a"}).program == Words{"-p", "--", "a"});
  CHECK(read({"--", "--", "a"}).program == Words{"--", "a"});
  CHECK(read({"-", "a"}).program == Words{"-", "a"});
  CHECK(read({"", "a"}).program == Words{"", "a"});
  CHECK(read({}).program.empty());
}

TEST_CASE("the option --help stops option parsing, but an earlier mistake is reported first") {
  CHECK(read({"-h", "--no-such"}).help);
  CHECK(read({"-qh"}).help);
  CHECK(read({"-hq"}).help);
  CHECK_FALSE(read({"p", "--help"}).help);
  CHECK(mistake({"--no-such", "--help"}).starts_with("unknown option"));
}

TEST_CASE("torchrun's compatibility mode accepts unambiguous abbreviated options, and the native mode does not") {
  const CompatibilityMode torchrun = GENERATE(CompatibilityMode::torchrun, CompatibilityMode::torch_launch);
  expect_one({"--nproc", "2", "p"}, "nproc-per-node", "2", torchrun);
  expect_one({"--nproc_per=2", "p"}, "nproc-per-node", "2", torchrun);
  expect_one({"--nproc-per=2", "p"}, "nproc-per-node", "2", torchrun);
  expect_one({"--stand", "p"}, "standalone", "1", torchrun);
  // Options of ddplaunch alone do not make torchrun's abbreviations ambiguous.
  expect_one({"--no-", "p"}, "no-python", "1", torchrun);
  expect_one({"--shut=3", "p"}, "grace", "3", torchrun);
  expect_one({"--overs", "p"}, "oversubscribe", "1", torchrun);
  expect_one({"--no-coll", "p"}, "collapse", "0", torchrun);
  CHECK(mistake({"--st", "p"}, torchrun) ==
        "--st is ambiguous: it may mean --standalone or --start-method. Write the full name.");
  CHECK(mistake({"--nproc=2", "p"}) == "unknown option --nproc. Did you mean --nproc-per-node?");
}

TEST_CASE("error messages name an option as the user typed it") {
  CHECK(read({"--rdzv_id=a", "p"}).settings[0].subject == "--rdzv_id=a");
  CHECK(read({"-t", "3", "p"}).settings[0].subject == "-t=3");
}

TEST_CASE("options may follow positional words, also after two dashes") {
  const auto result = read_words(Words{"a", "-q", "-", "--grace=1", "--", "--tee", "1", "b"}, kOptions,
                                 CompatibilityMode::native, true);
  CHECK(result.value().settings.size() == 3);
  CHECK(result.value().program == Words{"a", "-", "b"});
}
