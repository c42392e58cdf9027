#include "launcher/start/cli/view_options.h"

#include <algorithm>

#include "base/text.h"

namespace ddp::launcher {

void declare_view_options(OptionSet& c, JobWishes& wishes) {
  c.group("Views of the job");
  c.flag("--live", wishes.live,
         "Show the ranks on the terminal, below the output; ddplaunch top shows them elsewhere.");
  c.flag(
      "--progress-line,--no-progress-line",
      [&wishes](const std::string& on) {
        wishes.progress_line = on == "1";
        return Mistake();
      },
      "Show the progress that the program reports in a line below its output. [default: on for terminals]");
  c.value("--report", "FILE", some_text(wishes.report_file, "a file"),
          "Write a report of the run to this file as HTML, also after a failure; the first node writes it.");
  c.value(
      "--trace", "FILE", some_text(wishes.trace_file, "a file"),
      "Write a timeline of all ranks to this file for Perfetto, as JSON, or compressed if it ends in .gz; the first "
      "node writes it.");
  c.choice(
      "--record", "WHAT", kNamesOf<Recording>,
      [&wishes](const std::string& value) {
        const auto names = base::split(kNamesOf<Recording>, ' ');
        wishes.recording = static_cast<Recording>(std::ranges::find(names, value) - names.begin());
        return Mistake();
      },
      "Choose what the workers record for reports and traces: nothing (off), steps, phases and a sample of the "
      "collectives (steps), or all of them (all). [default: steps]");
}

}  // namespace ddp::launcher
