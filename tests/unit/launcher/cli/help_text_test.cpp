#include "launcher/cli/help_text.h"

#include <catch2/catch.hpp>

#include "base/text.h"

using namespace ddp;
using namespace ddp::launcher;

TEST_CASE("help names every option and every group, in at most 80 columns") {
  const std::string help = help_text("ddplaunch");
  for (const OptionSpec& option : option_table()) {
    for (const std::string& name : names_of(option)) {
      CAPTURE(name);
      CHECK(help.find("--" + name) != std::string::npos);
    }
  }
  for (const OptionGroupTitle& group : option_groups()) CHECK(help.find(std::string(group.title)) != std::string::npos);
  for (const std::string& line : base::split(help, '\n')) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
}

TEST_CASE("help speaks under the name that it was called by") {
  const std::string usage_of_launch = "\n       ddplaunch launch [options]";
  CHECK(help_text("ddplaunch").find(usage_of_launch) != std::string::npos);
  CHECK(help_text("torchrun").starts_with("Usage: torchrun [options] program"));
  CHECK(help_text("torchrun").find(usage_of_launch) == std::string::npos);
}

TEST_CASE("text is wrapped between words") {
  using Lines = std::vector<std::string>;
  CHECK(wrapped("a bb ccc", 4) == Lines{"a bb", "ccc"});
  CHECK(wrapped("abcdefgh i", 4) == Lines{"abcdefgh", "i"});
}

TEST_CASE("a synopsis has all names and the name of the value") {
  CHECK(option_synopsis(*find_option("tee")) == "-t, --tee STREAMS");
  CHECK(option_synopsis(*find_option("tag")) == "    --tag TEMPLATE, --no-tag");
  CHECK(option_synopsis(*find_option("grace")) == "    --grace SECONDS, --shutdown-timeout SECONDS");
}
