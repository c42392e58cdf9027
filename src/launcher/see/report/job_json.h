// Builds the launcher's reports for other programs, as JSON texts (docs/reference/event-log.md). The functions are
// pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/job/event.h"
#include "launcher/run/job/outcome.h"
#include "launcher/see/report/failure_summary.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

using WallTime = std::chrono::system_clock::time_point;

// The functions whose names end in _line return one line each, without its line end. The line of an event without
// meaning for a reader (an alarm) is "".
// Describes where a job was started, as far as the plan does not say it. What is empty is unknown.
struct StartPlace {
  std::string log_directory;
  std::string directory;  // the working directory
  std::string system;     // such as "Linux 6.1.0-18-amd64 x86_64, 64 CPUs"
};
std::string job_started_line(const LaunchPlan& plan, const StartPlace& place, WallTime now);
// `since_failure` is the time from the cause of the attempt before, if there was one.
std::string attempt_started_line(const LaunchPlan& plan, const Placement& placement, WallTime now,
                                 std::optional<std::chrono::nanoseconds> since_failure = std::nullopt);
// `text` contains the lines that the console shows about the event, if it is news about a hang.
std::string event_line(const LaunchPlan& plan, const Placement& placement, const Event& event, WallTime now,
                       const std::vector<std::string>& text = {});
// `node` is the name of this node in the job.
std::string message_line(const LaunchPlan& plan, const std::string& node, const LogLine& line, WallTime now);
// Returns the content of a dump file: the event, formatted for people.
std::string dump_document(const LaunchPlan& plan, const Placement& placement, const HangNews& news, WallTime now);

// Describes the end of an attempt.
struct AttemptEnd {
  const JobOutcome& outcome;
  std::string next;               // what follows; may be empty
  FailureEvidence evidence;       // empty after success
  std::vector<std::string> text;  // lines that the console shows
};
std::string attempt_ended_line(const LaunchPlan& plan, const Placement& placement, const AttemptEnd& end, WallTime now);

// Describes how the whole job ended.
struct JobEnd {
  int exit_code = 0;  // exit code of ddplaunch, as a shell shows it
  int attempts = 0;   // number of attempts that began
  std::chrono::nanoseconds run_time{0};
  std::string launcher_failure;        // why an attempt could not begin; empty if the last one did
  std::string node;                    // name of this node in the last attempt; empty if it is the host name
  std::vector<std::string> text = {};  // lines that the console showed at the end
};
std::string job_ended_line(const LaunchPlan& plan, const JobEnd& end, WallTime now);

// Returns the summary, a document about the end of the job. The outcome and the evidence are those of the last attempt.
// `log_directory` is empty if there is none.
std::string summary_document(const LaunchPlan& plan, const JobOutcome& outcome, const JobEnd& end,
                             const FailureEvidence& evidence, const std::string& log_directory);

// Returns torchelastic's error record for a whole job, for a launcher that started this one.
std::string error_record_document(const std::string& message, const std::vector<std::string>& last_lines, int exit_code,
                                  WallTime now);

// Returns an error record with the code of the cause added. Returns the text itself if it is not a JSON object.
std::string with_cause_code(const std::string& error_record, wire::CauseCode code);

// Returns a time such as "2026-11-21T08:43:22.123Z".
std::string iso_time(WallTime time);

}  // namespace ddp::launcher
