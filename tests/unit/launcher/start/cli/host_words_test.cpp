// Tests the options of a command line as launchers on other nodes get them.
#include <algorithm>

#include "launcher/start/cli/parse.h"
#include "support/catch.h"

using namespace ddp::launcher;
using Words = std::vector<std::string>;

namespace {

Options parse(const Words& words, const Words& environment = {}) {
  std::vector<const char*> argv{"ddplaunch"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const auto result = parse_command_line(static_cast<int>(argv.size()), argv.data(), environment);
  if (const auto* error = std::get_if<UsageError>(&result)) FAIL(error->message);
  return std::get<Options>(result);
}

}  // namespace

TEST_CASE("remote hosts get the effective options from all sources in one normalised form") {
  const Options options = parse({"--hosts=a", "-t", "3", "--no-tag", "--collapse", "--store-limit", "keys=1",
                                 "--store-limit=keys=2", "--tee=1", "p", "--grace=9"},
                                {"PET_GRACE=3", "PET_QUIET=0", "PET_COLLAPSE=0"});
  Words words = options.host_words;
  std::sort(words.begin(), words.end());
  CHECK(words == Words{"--collapse", "--grace=3", "--store-limit=keys=1", "--store-limit=keys=2", "--tag=", "--tee=1"});
}

TEST_CASE("options that only the controller needs are not passed to remote hosts") {
  CHECK(parse({"--hosts=a,b", "--ssh=ssh -v", "--remote-launcher=/d", "--forward-env=A=1", "--auth-token-file=/t",
               "--dry-run", "--json", "p"})
            .host_words.empty());
  CHECK(parse({"--hostfile=f", "--quiet", "p"}).host_words == Words{"--quiet"});
}

TEST_CASE("option values are passed to remote hosts without a change of meaning") {
  const Words given = {"--no-collapse", "--tag=x y", "--inject=rank=0,at=any,kind=stop",
                       "--grace=2",     "-m",        "--gpus=0,1"};
  Words here = given;
  here.insert(here.begin(), "--hosts=a");
  here.emplace_back("p");
  Words there = parse(here).host_words;
  there.emplace_back("p");
  Words alone = given;
  alone.emplace_back("p");
  CHECK(parse(there) == parse(alone));
}

TEST_CASE("a job on this host only stores no words for remote hosts") {
  CHECK(parse({"--grace=3", "p"}).host_words.empty());
}
