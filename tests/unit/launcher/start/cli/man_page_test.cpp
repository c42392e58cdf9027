#include "launcher/start/cli/man_page.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/subcommands.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;

TEST_CASE("the manual page has an entry for every option") {
  const std::string page = man_page();
  OptionList all = job_options();
  for (const Subcommand& each : subcommands()) {
    if (each.description == nullptr) continue;
    for (const OptionInfo& option : each.options()) all.push_back(option);
  }
  for (const OptionInfo& option : all) {
    for (std::string name : option.names) {
      CAPTURE(name);
      for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) name.insert(at, "\\");
      CHECK(page.find("\\fB\\-\\-" + name + "\\fR") != std::string::npos);
    }
  }
  const auto lines = base::split(page, '\n');
  CHECK(static_cast<std::size_t>(std::count(lines.begin(), lines.end(), ".TP")) == all.size());
}

TEST_CASE("each request in the manual page is one of the man macros") {
  const std::vector<std::string> known = {".TH", ".SH", ".SS", ".TP", ".IP", ".PP", ".br", ".EX", ".EE"};
  CHECK(man_page().starts_with(".TH DDPLAUNCH 1 "));
  for (const std::string& line : base::split(man_page(), '\n')) {
    CAPTURE(line);
    CHECK_FALSE(line.starts_with("'"));
    if (line.starts_with(".")) {
      CHECK(std::find(known.begin(), known.end(), line.substr(0, line.find(' '))) != known.end());
    }
  }
}
