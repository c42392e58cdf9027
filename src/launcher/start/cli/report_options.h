// Defines the options of `ddplaunch report`, as plain values. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/start/cli/command_words.h"
#include "launcher/start/log/log_line.h"

namespace ddp::launcher {

struct ReportOptions {
  std::vector<std::string> event_logs;  // one, or two to compare
  std::string output;                   // "-" for the standard output
  std::string run_id;                   // empty for the last run
  LogSettings log;

  friend bool operator==(const ReportOptions&, const ReportOptions&) = default;
};

// Declares the options at `command`, which sets `options` when it parses.
void declare_report_options(OptionSet& command, ReportOptions& options);

// Takes the event logs from the words, and chooses the output. Returns a sentence for the user if that is not possible.
std::optional<std::string> check_together(const CommandWords& words, ReportOptions& options);

// Returns the declared options, for code that does not parse.
OptionList report_options();

extern const char* const kReportDescription;
extern const char* const kReportExitCodes;

}  // namespace ddp::launcher
