#include "launcher/report/job_reporter.h"

#include <sys/stat.h>

#include <filesystem>

#include "launcher/report/core_location.h"
#include "launcher/report/failure_summary.h"
#include "launcher/report/job_json.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

WallTime wall_now() {
  return std::chrono::system_clock::now();
}

bool has_content(const std::string& path) {
  struct stat status {};
  return !path.empty() && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
}

}  // namespace

JobReporter::JobReporter(const LaunchPlan& plan, const RunDirectory& directory, LogSink& log, EventLog events,
                         LastLines last_lines)
    : plan_(plan), directory_(directory), log_(log), events_(std::move(events)), last_lines_(std::move(last_lines)) {}

JobObserver JobReporter::observer() {
  JobObserver observer;
  observer.attempt_begins = [this](const NodeAssignment& assignment) { attempt_began(assignment); };
  observer.event = [this](const Event& event) { events_.write(event_line(plan_, assignment_, event, wall_now())); };
  observer.attempt_ended = [this](const JobOutcome& outcome, const std::string& next) { attempt_ended(outcome, next); };
  observer.tell = [this](const std::string& line) { log_.error(line); };
  observer.warn = [this](const std::string& line) { log_.warning(line); };
  return observer;
}

void JobReporter::attempt_began(const NodeAssignment& assignment) {
  assignment_ = assignment;
  const std::string logs = directory_.temporary() ? "" : directory_.path();
  if (assignment.attempt == 0) {
    log_.info(start_line(plan_, assignment) + (logs.empty() ? "" : ", logs " + logs));
    for (const std::string& note : plan_.notes) log_.info(note);
    events_.write(job_started_line(plan_, logs, wall_now()));
  }
  events_.write(attempt_started_line(plan_, assignment, wall_now()));
}

FailureEvidence JobReporter::gather_evidence(const JobOutcome& outcome) const {
  FailureEvidence evidence;
  if (!outcome.culprit) return evidence;
  const WorkerEnd& end = *outcome.culprit;
  evidence.core =
      describe_core(end.status, gather_core_facts(end.pid, plan_.program, plan_.host_name, plan_.core, end.status));
  evidence.last_lines = last_lines_(end.local_rank);
  for (const char* name : {"stderr.log", "stdout.log"}) {
    const std::string file = directory_.file(end.local_rank, name);
    if (evidence.log_file.empty() && !directory_.temporary() && has_content(file)) evidence.log_file = file;
  }
  return evidence;
}

void JobReporter::attempt_ended(const JobOutcome& outcome, const std::string& next) {
  evidence_ = gather_evidence(outcome);
  text_ = failure_summary(outcome, plan_, evidence_);
  if (!next.empty()) text_.push_back("  " + next);
  for (const std::string& line : text_) log_.error(line);
  events_.write(attempt_ended_line(assignment_, outcome, next, wall_now()));
}

void JobReporter::job_ended(const JobOutcome& outcome, const base::ExitStatus& end) {
  events_.write(job_ended_line(end, std::chrono::steady_clock::now() - start_, wall_now()));
  pass_error_upwards(outcome);
  if (plan_.summary_file.empty()) return;
  const SummaryInput input{plan_,
                           outcome,
                           assignment_.attempt + 1,
                           directory_.temporary() ? "" : directory_.path(),
                           evidence_.core,
                           evidence_.last_lines,
                           text_};
  if (const auto failure = write_report(plan_.summary_file, summary_document(input))) log_.error(failure->message);
}

// A launcher that started us as its worker reads our error where it reads that of any worker.
void JobReporter::pass_error_upwards(const JobOutcome& outcome) {
  const auto path = find_variable(plan_.inherited_environment, wire::env::kErrorFile);
  if (!path || path->empty() || outcome.exit_code == 0) return;
  std::error_code error;
  if (outcome.culprit && outcome.culprit->error) {
    const std::string own = directory_.file(outcome.culprit->local_rank, "error.json");
    std::filesystem::copy_file(own, *path, std::filesystem::copy_options::overwrite_existing, error);
    if (!error) return;
  }
  const std::string message = text_.empty() ? describe_failure(outcome) : text_.front();
  static_cast<void>(
      write_report(*path, error_record_document(message, evidence_.last_lines, outcome.exit_code, wall_now())));
}

}  // namespace ddp::launcher
