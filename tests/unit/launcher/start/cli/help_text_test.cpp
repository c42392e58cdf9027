#include "launcher/start/cli/help_text.h"

#include "base/text.h"
#include "launcher/start/cli/job_options.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;

TEST_CASE("the option --help lists every option and every group in at most 80 columns") {
  const std::string help = help_text("ddplaunch");
  for (const OptionInfo& option : job_options()) {
    CHECK(help.find("\n" + option.group + "\n") != std::string::npos);
    for (const std::string& name : option.names) {
      CAPTURE(name);
      CHECK(help.find("--" + name) != std::string::npos);
    }
  }
  for (const std::string& line : base::split(help, '\n')) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
}

TEST_CASE("the option --help uses the name by which the program was started") {
  const std::string usage_of_launch = "\n       ddplaunch launch [options]";
  CHECK(help_text("ddplaunch").find(usage_of_launch) != std::string::npos);
  CHECK(help_text("torchrun").starts_with("Usage: torchrun [options] program"));
  CHECK(help_text("torchrun").find(usage_of_launch) == std::string::npos);
}

TEST_CASE("the short help fits on a screen and lists only existing options") {
  const std::vector<std::string> lines = base::split(short_help_text(), '\n');
  CHECK(lines.size() <= 40);
  const OptionList options = job_options();
  int named = 0;
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    const std::size_t name = line.find("--");
    if (!line.starts_with("      --") && !line.starts_with("  -")) continue;
    ++named;
    const OptionInfo* option = find_option(line.substr(name + 2, line.find(' ', name) - name - 2), options);
    REQUIRE(option != nullptr);
    CHECK(line.starts_with("  " + option_synopsis(*option)));
  }
  CHECK(named == 15);
  for (const char* name : {"--report FILE", "--live", "--trace FILE"}) {
    CHECK(short_help_text().find(name) != std::string::npos);
  }
}

TEST_CASE("help names every subcommand, and the reference page has a section for those with options") {
  const std::string page = command_page();
  for (const Subcommand& each : subcommands()) {
    CAPTURE(each.name);
    const std::string name = std::string("ddplaunch ") + each.name;
    CHECK(std::string_view(each.usage).starts_with(name + " "));
    CHECK(help_text("ddplaunch").find("       " + name + " ") != std::string::npos);
    CHECK(page.find(std::string("| `") + each.name + "` | " + each.help + " |\n") != std::string::npos);
    CHECK((page.find("\n## " + name + " {") != std::string::npos) == (each.description != nullptr));
  }
}

TEST_CASE("the option --help says where the units of durations are described") {
  CHECK(help_text("torchrun").find("SECONDS is a number, or a time with units") != std::string::npos);
}

TEST_CASE("help text is wrapped between words") {
  using Lines = std::vector<std::string>;
  CHECK(wrapped("a bb ccc", 4) == Lines{"a bb", "ccc"});
  CHECK(wrapped("abcdefgh i", 4) == Lines{"abcdefgh", "i"});
}

TEST_CASE("the synopsis of an option shows all of its names and the name of its value") {
  const OptionList options = job_options();
  CHECK(option_synopsis(*find_option("tee", options)) == "-t, --tee STREAMS");
  CHECK(option_synopsis(*find_option("tag", options)) == "    --tag TEMPLATE, --no-tag");
  CHECK(option_synopsis(*find_option("grace", options)) == "    --grace SECONDS, --shutdown-timeout SECONDS");
}

TEST_CASE("the help of ddplaunch bench lists each of its options in at most 80 columns") {
  const std::string help = subcommand_help(*find_subcommand("bench"));
  CHECK(help.starts_with("Usage: ddplaunch bench [options of ddplaunch] [OPERATION ...] [options]\n"));
  for (const char* name :
       {"min-bytes", "max-bytes", "step-factor", "sizes", "iterations", "seconds", "own-buffers", "no-check", "json"}) {
    CHECK(help.find(std::string("      --") + name) != std::string::npos);
  }
  for (const std::string& line : base::split(help, '\n')) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
}
