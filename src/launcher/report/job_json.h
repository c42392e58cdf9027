// Builds the launcher's reports for other programs, as JSON texts (docs/reference/event-log.md). The functions are
// pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/job/event.h"
#include "launcher/job/outcome.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/placement.h"
#include "launcher/report/failure_summary.h"

namespace ddp::launcher {

using WallTime = std::chrono::system_clock::time_point;

// The functions whose names end in _line return one line each, without its line end. The line of an event without
// meaning for a reader (an alarm) is "".
std::string job_started_line(const LaunchPlan& plan, const std::string& log_directory, WallTime now);
std::string attempt_started_line(const LaunchPlan& plan, const Placement& placement, WallTime now);
std::string event_line(const LaunchPlan& plan, const Placement& placement, const Event& event, WallTime now);
// Returns the content of a dump file: the event, formatted for people.
std::string dump_document(const LaunchPlan& plan, const Placement& placement, const HangNews& news, WallTime now);
std::string attempt_ended_line(const LaunchPlan& plan, const Placement& placement, const JobOutcome& outcome,
                               const std::string& next, WallTime now);

// Describes how the whole job ended.
struct JobEnd {
  int exit_code = 0;  // exit code of ddplaunch, as a shell shows it
  int attempts = 0;   // number of attempts that began
  std::chrono::nanoseconds run_time{0};
  std::string launcher_failure;  // why an attempt could not begin; empty if the last one did
  std::string node;              // name of this node in the last attempt; empty if it is the host name
};
std::string job_ended_line(const LaunchPlan& plan, const JobEnd& end, WallTime now);

// Holds the input of the summary, a document about the end of the job.
struct SummaryInput {
  const LaunchPlan& plan;
  const JobOutcome& outcome;  // outcome of the last attempt
  const JobEnd& end;
  std::string log_directory;      // empty if there is none
  FailureEvidence evidence;       // of the last attempt
  std::vector<std::string> text;  // lines that the console showed
};
std::string summary_document(const SummaryInput& input);

// Returns torchelastic's error record for a whole job, for a launcher that started this one.
std::string error_record_document(const std::string& message, const std::vector<std::string>& last_lines, int exit_code,
                                  WallTime now);

// Returns a time such as "2026-11-21T08:43:22.123Z".
std::string iso_time(WallTime time);

}  // namespace ddp::launcher
