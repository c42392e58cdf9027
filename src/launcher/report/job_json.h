// The launcher's reports for machines, as JSON texts (docs/reference/event-log.md). Pure.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launcher/job/event.h"
#include "launcher/job/outcome.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/placement.h"

namespace ddp::launcher {

using WallTime = std::chrono::system_clock::time_point;

// One line each, without its end. An event that says nothing to a reader (an alarm) is "".
std::string job_started_line(const LaunchPlan& plan, const std::string& log_directory, WallTime now);
std::string attempt_started_line(const LaunchPlan& plan, const Placement& placement, WallTime now);
std::string event_line(const LaunchPlan& plan, const Placement& placement, const Event& event, WallTime now);
// What a dump's file holds: the event, for people.
std::string dump_document(const LaunchPlan& plan, const Placement& placement, const HangNews& news, WallTime now);
std::string attempt_ended_line(const LaunchPlan& plan, const Placement& placement, const JobOutcome& outcome,
                               const std::string& next, WallTime now);

// How the whole job ended.
struct JobEnd {
  int exit_code = 0;  // of ddplaunch, as a shell shows it
  int attempts = 0;   // that began
  std::chrono::nanoseconds run_time{0};
  std::string launcher_failure;  // why an attempt could not begin; empty: the last one did
  std::string node;              // as the job named this node in the last attempt; empty: its host name
};
std::string job_ended_line(const LaunchPlan& plan, const JobEnd& end, WallTime now);

// What became of the job, as a document of its own.
struct SummaryInput {
  const LaunchPlan& plan;
  const JobOutcome& outcome;  // of the last attempt
  const JobEnd& end;
  std::string log_directory;            // empty: none
  std::string core;                     // describe_core()
  std::vector<std::string> last_lines;  // of the culprit
  std::vector<std::string> text;        // what the console was told
};
std::string summary_document(const SummaryInput& input);

// torchelastic's error record for a whole job, for a launcher above us.
std::string error_record_document(const std::string& message, const std::vector<std::string>& last_lines, int exit_code,
                                  WallTime now);

// "2026-11-21T08:43:22.123Z".
std::string iso_time(WallTime time);

}  // namespace ddp::launcher
