// Tests the options of a command line as launchers on other nodes get them.
#include <algorithm>

#include "support/command_line.h"

using namespace ddp::launcher;

TEST_CASE("remote hosts get the effective options from all sources in one normalised form") {
  const Options options = parsed_as({"--hosts=a", "-t", "3", "--no-tag", "--collapse", "--store-limit", "keys=1",
                                     "--store-limit=keys=2", "--tee=1", "p", "--grace=9"},
                                    {"PET_GRACE=3", "PET_QUIET=0", "PET_COLLAPSE=0"});
  Words words = options.host_words;
  std::sort(words.begin(), words.end());
  CHECK(words == Words{"--collapse", "--grace=3", "--store-limit=keys=1", "--store-limit=keys=2", "--tag=", "--tee=1"});
}

TEST_CASE("options that only the controller needs are not passed to remote hosts") {
  CHECK(parsed_as({"--hosts=a,b", "--ssh=ssh -v", "--remote-launcher=/d", "--forward-env=A=1", "--auth-token-file=/t",
                   "--dry-run", "--json", "p"})
            .host_words.empty());
  CHECK(parsed_as({"--hostfile=f", "--quiet", "p"}).host_words == Words{"--quiet"});
}

TEST_CASE("option values are passed to remote hosts without a change of meaning") {
  const Words given = {"--no-collapse", "--tag=x y", "--inject=rank=0,at=any,kind=stop",
                       "--grace=2",     "-m",        "--gpus=0,1"};
  Words here = given;
  here.insert(here.begin(), "--hosts=a");
  here.emplace_back("p");
  Words there = parsed_as(here).host_words;
  there.emplace_back("p");
  Words alone = given;
  alone.emplace_back("p");
  CHECK(parsed_as(there) == parsed_as(alone));
}

TEST_CASE("a job on this host only stores no words for remote hosts") {
  CHECK(parsed_as({"--grace=3", "p"}).host_words.empty());
}
