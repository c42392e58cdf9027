#include "launcher/start/cli/report_options.h"

#include <algorithm>

#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/log_options.h"

namespace ddp::launcher {

namespace {

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string without_ending(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  const bool has_ending = dot != std::string::npos && dot > path.rfind('/') + 1;
  return has_ending ? path.substr(0, dot) : path;
}

}  // namespace

const char* const kReportDescription =
    "Makes a report of a run from the file that --event-log has written, as one file of HTML. The run may have failed, "
    "and the file may be cut off; the report then says what is missing. Two event logs are compared, side by side.";

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
    return "no event log given. Usage: ddplaunch report EVENT_LOG [EVENT_LOG]. Run a job with --event-log FILE to get "
           "one";
  }
  if (words.program.size() > 2) {
    return "ddplaunch report compares at most two event logs, and '" + words.program[2] + "' is the third. Remove it";
  }
  options.event_logs = words.program;
  if (std::ranges::find(options.event_logs, "") != options.event_logs.end()) {
    return "the name of the event log is empty. Name a file";
  }
  const bool compares = options.event_logs.size() == 2;
  if (compares && !options.run_id.empty()) {
    return "--run-id selects a run of one event log, and two are given. Make an event log per run, with --event-log";
  }
  if (!options.output.empty()) return std::nullopt;
  const std::string& first = options.event_logs.front();
  options.output = without_ending(first);
  if (compares) options.output += "-" + file_name(without_ending(options.event_logs.back()));
  options.output += ".html";
  if (options.output == first) {
    return "the report would overwrite the event log '" + first + "'. Choose another file with -o";
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
