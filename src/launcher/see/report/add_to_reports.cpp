#include "launcher/see/report/add_to_reports.h"

#include <chrono>
#include <string>

#include "launcher/see/report/html/html_report.h"
#include "launcher/see/report/job_json.h"
#include "launcher/see/report/report_data.h"
#include "launcher/see/report/report_file.h"
#include "launcher/start/log/line_file.h"

namespace ddp::launcher {

// The first node knows the ranks of all nodes.
std::optional<base::Failure> write_html_report(const LaunchPlan& plan, int node_rank,
                                               std::span<const std::string> events,
                                               const std::map<int, AttemptHistory>& histories) {
  const std::string& file = plan.report_file;
  if (file.empty() || node_rank != 0) return std::nullopt;
  const auto run = read_run(events, "", histories).value_or(RunRecord());
  return write_report(file, html_report(run), "--report=" + file, Document::report);
}

void add_to_reports(const LaunchPlan& plan, EarlierAttempts& attempts, std::span<const LogLine> lines,
                    const LogWriter& log) {
  if (lines.empty()) return;
  const auto warn = [&](const std::string& why) { log({LogLevel::warning, LogSource::launcher, why}); };
  auto events = LineFile::open("--event-log", plan.event_log, warn);
  if (!events) warn(events.error().message);
  for (const LogLine& line : lines) {
    attempts.events.push_back(message_line(plan, attempts.node_name, line, std::chrono::system_clock::now()));
    if (events) events.value().write(attempts.events.back());
  }
  if (const auto failure = write_html_report(plan, attempts.node_rank, attempts.events)) warn(failure->message);
}

}  // namespace ddp::launcher
