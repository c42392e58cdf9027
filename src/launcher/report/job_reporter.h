// JobReporter: tells the console, the event log, the summary and a launcher above us how the job fares.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/job/job_driver.h"
#include "launcher/log/line_file.h"
#include "launcher/log/log.h"
#include "launcher/process/run_directory.h"
#include "launcher/report/failure_summary.h"
#include "launcher/report/line_queue.h"
#include "launcher/report/report_file.h"

namespace ddp::launcher {

class JobReporter {
 public:
  using LastLines = std::function<std::vector<std::string>(int local_rank)>;

  // `last_lines`: of a worker's output in the attempt that has just ended.
  JobReporter(const LaunchPlan& plan, const RunDirectory& directory, Log& log, LineFile events, LastLines last_lines);

  // Begins the event log. The reason, if that cannot be done, or if the summary could not be written at the end: call
  // it before anything is started.
  std::optional<base::Failure> begin();

  // Refers to this object.
  JobObserver observer();

  // The job is over: one of these. They write what is to be written at the end.
  void job_ended(const JobOutcome& outcome, const base::ExitStatus& end) { finish(outcome, end.shell_code(), ""); }
  void job_failed(const base::Failure& failure);  // an attempt could not begin; ddplaunch ends with base::kExitOwnFault

 private:
  void attempt_began(const Placement& placement);
  void log_event(const Event& event);
  void tell_notes();
  void say(const LogLine& line);
  void say(LogLevel level, std::string text) { say({level, LogSource::job, std::move(text)}); }
  void say_last(LogLevel level, const std::string& text);
  void tell(const HangNews& news);
  void attempt_ended(const JobOutcome& outcome, const std::string& next, bool is_last);
  void ended_between_attempts(const JobOutcome& outcome);
  FailureEvidence gather_evidence(const JobOutcome& outcome) const;
  void finish(const JobOutcome& outcome, int exit_code, const std::string& launcher_failure);
  std::optional<base::Failure> pass_error_upwards(const JobOutcome& outcome, int exit_code) const;
  std::string log_directory() const { return directory_.temporary() ? "" : directory_.path(); }

  const LaunchPlan& plan_;
  const RunDirectory& directory_;
  Log& log_;
  LineFile events_;
  LastLines last_lines_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int attempts_ = 0;  // that have begun
  bool has_told_notes_ = false;
  bool has_told_of_py_spy_ = false;
  int dumps_ = 0;                  // of the current attempt
  bool stopped_ = false;           // by SIGTSTP, and not continued since
  Placement placement_;            // of the current attempt
  FailureEvidence evidence_;       // of the last one that has ended
  std::vector<std::string> text_;  // what the console was told at the end of it
  // What a slow reader does not take now, while other nodes wait for our heartbeats, is printed when it takes more, at
  // the latest when all is over.
  LineQueue lines_;
};

}  // namespace ddp::launcher
