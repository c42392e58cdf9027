// JobReporter reports the course of a job to the console, the event log, the summary and a launcher that started this
// one.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/run/job/job_driver.h"
#include "launcher/run/process/run_directory.h"
#include "launcher/see/report/event_memory.h"
#include "launcher/see/report/failure_summary.h"
#include "launcher/see/report/line_queue.h"
#include "launcher/see/view/history_data.h"
#include "launcher/start/log/line_file.h"
#include "launcher/start/log/log.h"

namespace ddp::launcher {

class JobReporter {
 public:
  using LastLines = std::function<std::vector<std::string>(int local_rank)>;

  // `last_lines` returns the last lines of a worker's output in the attempt that has just ended.
  JobReporter(const LaunchPlan& plan, const RunDirectory& directory, Log& log, LineFile events, LastLines last_lines);

  // Returns the history of the attempt that has just ended. It is called before the end of the attempt is reported.
  std::function<AttemptHistory()> history;

  // Begins the event log. Returns the reason if that fails, or if the summary could not be written at the end. Must be
  // called before anything is started.
  std::optional<base::Failure> begin();

  // The result refers to this object.
  JobObserver observer();

  // When the job is over, one of these two functions must be called. They write the final reports.
  void job_ended(const JobOutcome& outcome, const base::ExitStatus& end) { finish(outcome, end.shell_code(), ""); }
  void job_failed(const base::Failure& failure);  // an attempt could not begin; the exit code is kExitOwnFault

  // Returns what is left of the attempts of this job, for a call of launch() that goes on with it. `with_events` adds
  // those for the report, if there is one.
  EarlierAttempts attempts(bool with_events) const;

 private:
  void attempt_began(const Placement& placement);
  bool wants_events() const { return events_.is_open() || !plan_.report_file.empty(); }
  void write_event(const std::string& line);
  void write_history(const AttemptHistory& history_of_attempt);
  void log_event(const Event& event);
  void log_message(const LogLine& line);
  void searches_for_nodes(bool is_coordinator);
  // Says the notes of the plan that were not said yet. `level` is for those about the job.
  void tell_notes(LogLevel level);
  void tell_node_notes();
  void say(const LogLine& line);
  void say(LogLevel level, std::string text) { say({level, LogSource::job, std::move(text)}); }
  void say_last(LogLevel level, const std::string& text);
  // Returns the lines that the console shows.
  std::vector<std::string> tell(const HangNews& news);
  void attempt_ended(const JobOutcome& outcome, const std::string& next, bool is_last);
  void ended_between_attempts(const JobOutcome& outcome);
  FailureEvidence gather_evidence(const JobOutcome& outcome, const LaunchPlan& plan) const;
  void finish(const JobOutcome& outcome, int exit_code, const std::string& launcher_failure);
  std::optional<base::Failure> pass_error_upwards(const JobOutcome& outcome, int exit_code) const;
  std::string log_directory() const { return directory_.temporary() ? "" : directory_.path(); }

  const LaunchPlan& plan_;
  const RunDirectory& directory_;
  Log& log_;
  LineFile events_;
  LastLines last_lines_;
  EventMemory memory_;  // the lines of the event log, for --report
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int attempts_ = 0;  // number of attempts that have begun
  bool has_shown_notes_ = false;
  bool has_shown_node_notes_ = false;
  bool has_recommended_py_spy_ = false;
  int dumps_ = 0;             // number of dumps in the current attempt
  bool is_ending_ = false;    // the lines of the end of an attempt are said
  bool stopped_ = false;      // the job was stopped by SIGTSTP, and not continued since
  Placement placement_;       // placement of the current attempt
  FailureEvidence evidence_;  // evidence of the last attempt that has ended
  std::optional<std::chrono::steady_clock::time_point> failed_at_;  // when the last attempt failed
  std::string signature_;                                           // signature of its failure; empty if there was none
  std::vector<std::string> text_;                                   // lines that the console showed at its end
  // Keeps lines that a slow reader does not accept now, because other nodes wait for this node's heartbeats. They are
  // printed when the reader accepts more, at the latest when the job is over.
  LineQueue lines_;
};

}  // namespace ddp::launcher
