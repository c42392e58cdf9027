// JobReporter: tells the console, the event log, the summary and a launcher above us how the job fares.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launcher/process/run_directory.h"
#include "launcher/report/failure_summary.h"
#include "launcher/report/log_sink.h"
#include "launcher/report/report_file.h"
#include "launcher/supervise/job.h"

namespace ddp::launcher {

class JobReporter {
 public:
  using LastLines = std::function<std::vector<std::string>(int local_rank)>;

  // `last_lines`: of a worker's output in the attempt that has just ended.
  JobReporter(const LaunchPlan& plan, const RunDirectory& directory, LogSink& log, EventLog events,
              LastLines last_lines);

  // Refers to this object.
  JobObserver observer();

  // The job is over. Writes what is to be written at the end.
  void job_ended(const JobOutcome& outcome, const base::ExitStatus& end);

 private:
  void attempt_began(const NodeAssignment& assignment);
  void attempt_ended(const JobOutcome& outcome, const std::string& next);
  FailureEvidence gather_evidence(const JobOutcome& outcome) const;
  void pass_error_upwards(const JobOutcome& outcome);

  const LaunchPlan& plan_;
  const RunDirectory& directory_;
  LogSink& log_;
  EventLog events_;
  LastLines last_lines_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  NodeAssignment assignment_;  // of the current attempt
  FailureEvidence evidence_;   // of the last one that has ended
  std::vector<std::string> text_;
};

}  // namespace ddp::launcher
