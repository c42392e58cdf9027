#include "launcher/cli/report_options.h"

#include "launcher/cli/job_options.h"
#include "launcher/cli/log_options.h"

namespace ddp::launcher {

const char* const kReportDescription =
    "Makes a report of a run from the file that --event-log has written, as one file of HTML. The run may have failed, "
    "and the file may be cut off; the report then says what is missing.";

const char* const kReportExitCodes =
    "ddplaunch report exits with 0 if the report is written. Other codes: 2: wrong usage; 125: the event log cannot be "
    "read, contains no event of the run, or the report cannot be written.";

void declare_report_options(OptionSet& c, ReportOptions& o) {
  c.value("-o,--output", "FILE", some_text(o.output, "a file"),
          "Write the report to this file; - writes it to the standard output. [default: the name of the event log with "
          ".html]");
  c.value("--run-id", "ID", some_text(o.run_id, "a run"),
          "Report on this run if the event log contains several. [default: the last one]");
  declare_log_options(c, o.log);
  declare_help(c, "Print this text and exit.");
}

std::optional<std::string> check_together(const CommandWords& words, ReportOptions& options) {
  if (words.program.empty()) {
    return "no event log given. Usage: ddplaunch report EVENT_LOG. Run a job with --event-log FILE to get one";
  }
  if (words.program.size() > 1) {
    return "ddplaunch report takes one event log, and '" + words.program[1] + "' is another one. Remove it";
  }
  options.event_log = words.program.front();
  if (options.event_log.empty()) return "the name of the event log is empty. Name a file";
  if (!options.output.empty()) return std::nullopt;
  const std::size_t name = options.event_log.rfind('/') + 1;
  const std::size_t dot = options.event_log.rfind('.');
  const bool has_ending = dot != std::string::npos && dot > name;
  options.output = (has_ending ? options.event_log.substr(0, dot) : options.event_log) + ".html";
  if (options.output == options.event_log) {
    return "the report would overwrite the event log '" + options.event_log + "'. Choose another file with -o";
  }
  return std::nullopt;
}

OptionList report_options() {
  ReportOptions options;
  OptionSet command(false);
  declare_report_options(command, options);
  return command.options();
}

}  // namespace ddp::launcher
