#include "launcher/see/report/job_reporter.h"

#include <sys/stat.h>
#include <sys/utsname.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/exit_code.h"
#include "base/file.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/cause_code.h"
#include "launcher/run/job/restore_plan.h"
#include "launcher/run/process/process_tree.h"
#include "launcher/see/report/add_to_reports.h"
#include "launcher/see/report/core_location.h"
#include "launcher/see/report/event_text.h"
#include "launcher/see/report/hang_report.h"
#include "launcher/see/report/history_json.h"
#include "launcher/see/report/job_json.h"
#include "launcher/see/report/report_file.h"
#include "launcher/see/report/trace_file.h"
#include "launcher/start/plan/used_gpu.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

WallTime wall_now() {
  return std::chrono::system_clock::now();
}

// The first report of a stall is a note, because the ranks may well continue.
LogLevel level_of(const HangNews& news) {
  using Kind = HangNews::Kind;
  if (news.kind == Kind::asked) return LogLevel::answer;
  if (news.kind == Kind::hung && news.ends_job) return LogLevel::error;
  return news.kind == Kind::hung || news.kind == Kind::warned ? LogLevel::warning : LogLevel::note;
}

// An end that the user has requested is not an error.
LogLevel level_of(const JobOutcome& outcome) {
  if (outcome.has_saved) return LogLevel::note;
  return outcome.cause_as<SignalArrived>() != nullptr ? LogLevel::warning : LogLevel::error;
}

// Returns a text such as "Linux 6.1.0-18-amd64 x86_64, 64 CPUs".
std::string describe_system() {
  utsname names{};
  const std::string cpus = base::counted(static_cast<std::int64_t>(std::thread::hardware_concurrency()), "CPU");
  if (::uname(&names) != 0) return cpus;
  return std::string(names.sysname) + " " + names.release + " " + names.machine + ", " + cpus;
}

bool has_content(const std::string& path) {
  struct stat status {};
  return !path.empty() && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
}

}  // namespace

JobReporter::JobReporter(const LaunchPlan& plan, const RunDirectory& directory, Log& log, LineFile events,
                         LastLines last_lines)
    : plan_(plan),
      directory_(directory),
      log_(log),
      events_(std::move(events)),
      last_lines_(std::move(last_lines)),
      lines_({[&log](const LogLine& line) { return log.show(line); },
              [&log](const LogLine& line) { log.show_last(line); }}) {}

std::optional<base::Failure> JobReporter::begin() {
  const std::string& summary = plan_.summary_file;
  const std::array files = {OutputFile{"--launcher-log", plan_.log.file, true},
                            OutputFile{"--event-log", plan_.event_log, true}, OutputFile{"--summary", summary},
                            OutputFile{"--report", plan_.report_file}, OutputFile{"--trace", plan_.trace_file}};
  if (auto failure = check_distinct(files)) return failure;
  if (auto failure = check_event_log(files[1], plan_.log.file)) return failure;
  if (auto failure = check_report(summary, "--summary=" + summary, Document::summary)) return failure;
  const std::string& report = plan_.report_file;
  if (auto failure = check_report(report, "--report=" + report, Document::report)) return failure;
  // Of several nodes only the coordinator writes the trace, and it is not known yet which one that is.
  if (!plan_.nodes.several()) {
    if (auto failure = TraceFile::check(plan_)) return failure;
  }
  std::error_code error;
  const std::string directory = std::filesystem::current_path(error).string();
  for (const std::string& line : plan_.earlier.events) memory_.add(line);
  const std::string line = job_started_line(plan_, {log_directory(), directory, describe_system()}, wall_now());
  if (!report.empty()) memory_.add(line);
  return events_.begin(line);
}

JobObserver JobReporter::observer() {
  JobObserver observer;
  observer.searches_for_nodes = [this](bool is_coordinator) { searches_for_nodes(is_coordinator); };
  observer.attempt_begins = [this](const Placement& placement) { attempt_began(placement); };
  observer.event = [this](const Event& event) { log_event(event); };
  observer.attempt_ended = [this](const JobOutcome& outcome, const std::string& next, bool is_last) {
    attempt_ended(outcome, next, is_last);
  };
  observer.ended_between_attempts = [this](const JobOutcome& outcome) { ended_between_attempts(outcome); };
  observer.log = [this](const LogLine& line) { say(line); };
  return observer;
}

void JobReporter::attempt_began(const Placement& placement) {
  placement_ = placement;
  dumps_ = 0;
  std::optional<std::chrono::nanoseconds> since_failure;
  if (failed_at_) since_failure = std::chrono::steady_clock::now() - *failed_at_;
  write_event(attempt_started_line(plan_, placement, wall_now(), since_failure));
  if (attempts_++ == 0) {
    const std::string logs = log_directory();
    say(LogLevel::info, start_line(plan_, placement) + (logs.empty() ? "" : ", logs " + logs));
    const LogLevel level = placement.node_rank == 0 ? LogLevel::note : LogLevel::debug;
    tell_notes(level);
    if (const auto line = interface_line(plan_, placement.interface)) say(level, *line);
  }
  const int last = placement.first_rank + plan_.workers - 1;
  if (const std::string restored = describe(placement.restore); !restored.empty()) {
    say(placement.node_rank == 0 ? LogLevel::note : LogLevel::debug, restored);
  }
  say(LogLevel::debug, "attempt " + std::to_string(placement.attempt) + " begins: ranks " +
                           std::to_string(placement.first_rank) + " to " + std::to_string(last) + " of " +
                           std::to_string(placement.world_size));
}

void JobReporter::write_event(const std::string& line) {
  if (!plan_.report_file.empty()) memory_.add(line);
  events_.write(line);
}

// The launcher's own report gets the history as a value, with a line that names its attempt only.
void JobReporter::write_history(const AttemptHistory& history_of_attempt) {
  const std::string& node = node_name(plan_.host_name, placement_);
  if (events_.is_open()) events_.write(history_line(plan_, node, history_of_attempt, wall_now()));
  if (plan_.report_file.empty()) return;
  const AttemptHistory only_number{.attempt = history_of_attempt.attempt};
  memory_.add(history_line(plan_, node, only_number, wall_now()), as_logged(history_of_attempt));
}

// The first node says the notes while it waits for the others, because they may explain what it waits for.
void JobReporter::searches_for_nodes(bool is_coordinator) {
  tell_node_notes();
  if (is_coordinator) tell_notes(LogLevel::note);
}

void JobReporter::tell_notes(LogLevel level) {
  tell_node_notes();
  if (std::exchange(has_shown_notes_, true)) return;
  for (const std::string& note : plan_.notes) say(level, note);
}

void JobReporter::tell_node_notes() {
  if (std::exchange(has_shown_node_notes_, true)) return;
  const std::string node = plan_.nodes.several() ? "node " + plan_.host_name + ": " : "";
  for (const std::string& note : plan_.node_notes) say(LogLevel::note, node + note);
}

// If the console does not accept a note or a less important line now, the line is dropped: it is not worth a wait.
void JobReporter::say(const LogLine& line) {
  log_.record(line);
  log_message(line);
  if (line.level >= LogLevel::warning) {
    lines_.say(line);
  } else if (lines_.print()) {
    log_.show(line);
  }
}

// The event log has hangs and the ends of attempts in lines of their own.
void JobReporter::log_message(const LogLine& line) {
  const bool counts = line.level == LogLevel::note || line.level == LogLevel::warning || line.level == LogLevel::error;
  if (!counts || line.source == LogSource::hangs || is_ending_ || !wants_events()) return;
  write_event(message_line(plan_, node_name(plan_.host_name, placement_), line, wall_now()));
}

void JobReporter::say_last(LogLevel level, const std::string& text) {
  const LogLine line{level, LogSource::job, text};
  log_.record(line);
  lines_.last_word(line);
}

void JobReporter::log_event(const Event& event) {
  std::vector<std::string> text;
  if (const auto* news = std::get_if<HangNews>(&event)) text = tell(*news);
  lines_.print();
  if (const auto line = log_.wants(LogLevel::debug) ? event_text(event, placement_.first_rank) : std::nullopt)
    say(*line);
  if (!wants_events()) return;
  if (const auto* arrived = std::get_if<SignalArrived>(&event)) {
    // The guardian sends SIGCONT after any event that ends the job. It may arrive after the end, and continues no
    // process.
    if (arrived->signal == SIGCONT && !stopped_) return;
    if (arrived->signal == SIGTSTP) stopped_ = true;
    if (arrived->signal == SIGCONT) stopped_ = false;
  }
  write_event(event_line(plan_, placement_, event, wall_now(), text));
}

std::vector<std::string> JobReporter::tell(const HangNews& news) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  const LogLevel level = level_of(news);
  const std::vector<std::string> text = hang_report(news, static_cast<std::uint64_t>(nanoseconds));
  for (const std::string& line : text) say({level, LogSource::hangs, line});
  if (!has_recommended_py_spy_ && lacks_py_spy(news.evidence)) {
    has_recommended_py_spy_ = true;
    say({level, LogSource::hangs, "  to see the lines of the Python program, install py-spy: pip install py-spy"});
  }
  if (news.kind == HangNews::Kind::stalled || news.evidence.stacks.empty() || directory_.temporary()) return text;
  const std::string file = directory_.attempt_file("dump_" + std::to_string(++dumps_) + ".json");
  const auto failure = write_report(file, dump_document(plan_, placement_, news, wall_now()), file, Document::any);
  say({failure ? LogLevel::warning : level, LogSource::hangs,
       failure ? failure->message : "  the stacks of all threads of all ranks are in " + file});
  return text;
}

FailureEvidence JobReporter::gather_evidence(const JobOutcome& outcome, const LaunchPlan& plan) const {
  FailureEvidence evidence;
  evidence.node = node_name(plan_.host_name, placement_);
  std::vector<pid_t> survivors = outcome.leftovers;
  for (const RankAndPid& worker : outcome.unkillable) survivors.push_back(worker.pid);
  for (const pid_t pid : survivors) {
    if (::kill(pid, 0) != 0 && errno == EPERM) evidence.of_other_users.insert(pid);
  }
  if (outcome.culprit() == nullptr) return evidence;
  const WorkerEnd& end = *outcome.culprit();
  evidence.core =
      describe_core(end.status, gather_core_facts(end.pid, plan_.program, plan_.host_name, plan_.core, end.status));
  evidence.last_lines = last_lines_(end.local_rank);
  for (const char* name : {"stderr.log", "stdout.log"}) {
    const std::string file = directory_.file(end.local_rank, name);
    if (evidence.log_file.empty() && !directory_.temporary() && has_content(file)) evidence.log_file = file;
  }
  std::vector<std::string> words = evidence.last_lines;
  if (end.error) words.push_back(end.error->message);
  if (may_lack_shared_memory(end.status, words)) evidence.shared_memory = read_shared_memory();
  if (const auto error = gpu_memory_error_of(end.error, evidence.last_lines)) {
    const auto gpu = gpu_of_error(plan, end, *error);
    GpuUsers users;
    users.is_in_container = has_own_pids();
    if (gpu) users = find_gpu_users(plan.node_gpus.at(static_cast<std::size_t>(*gpu)), limits::kGpuUsersTime);
    evidence.gpu_memory = make_gpu_memory_failure(plan, outcome, *error, users);
  }
  return evidence;
}

void JobReporter::attempt_ended(const JobOutcome& outcome, const std::string& next, bool is_last) {
  say(LogLevel::debug,
      "attempt " + std::to_string(placement_.attempt) + " has ended" + (next.empty() ? "" : ": " + next));
  const LaunchPlan plan = lacks_uuids(plan_) ? with_uuids(plan_, find_gpus("/")) : plan_;
  evidence_ = gather_evidence(outcome, plan);
  text_ = failure_summary(outcome, plan, evidence_);
  if (!outcome.has_succeeded()) failed_at_ = std::chrono::steady_clock::now() - outcome.ending_time;
  const std::string signature = failure_signature(outcome, evidence_);
  const bool failed_before = signature == std::exchange(signature_, signature) && !signature.empty();
  // The last attempt's report is shown in full, because the user looks for it at the end of the output. If the job has
  // several nodes, a node does not know here whether its attempt was the last one.
  if (failed_before && !is_last && !plan_.nodes.several()) text_ = {text_.front() + ", as in the previous attempt"};
  if (!next.empty()) text_.push_back("  " + next);
  if (history && wants_events()) write_history(history());
  write_event(attempt_ended_line(plan_, placement_, {outcome, next, evidence_, text_}, wall_now()));
  const LogLevel level = level_of(outcome);
  is_ending_ = true;
  for (const std::string& line : text_) is_last ? say_last(level, line) : say(level, line);
  is_ending_ = false;
  if (const std::string remark = straggler_remark(outcome.stragglers); !remark.empty()) say(LogLevel::note, remark);
}

void JobReporter::ended_between_attempts(const JobOutcome& outcome) {
  evidence_ = {};
  text_ = {describe_failure(outcome) + ", before the next attempt"};
  say_last(level_of(outcome), text_.front());
}

EarlierAttempts JobReporter::attempts(bool with_events) const {
  EarlierAttempts left;
  left.node_rank = placement_.node_rank;
  left.node_name = node_name(plan_.host_name, placement_);
  if (attempts_ > 0) left.count = placement_.attempt + 1;
  if (attempts_ > 0) left.nodes = placement_.node_count;
  if (!with_events) return left;
  left.events = memory_.lines();
  for (const auto& [attempt, kept] : memory_.histories())
    left.events.push_back(history_line(plan_, left.node_name, kept, wall_now()));
  return left;
}

void JobReporter::job_failed(const base::Failure& failure) {
  evidence_ = {};
  text_ = {failure.message};
  say_last(LogLevel::error, failure.message);
  finish({}, base::kExitOwnFault, failure.message);
}

void JobReporter::finish(const JobOutcome& outcome, int exit_code, const std::string& launcher_failure) {
  // If the nodes have not met, the notes may explain why.
  if (plan_.nodes.several()) tell_notes(LogLevel::note);
  const JobEnd end{exit_code,
                   attempts_,
                   std::chrono::steady_clock::now() - start_,
                   launcher_failure,
                   node_name(plan_.host_name, placement_),
                   text_};
  write_event(job_ended_line(plan_, end, wall_now()));
  lines_.finish();
  if (const auto failure = pass_error_upwards(outcome, exit_code)) say_last(LogLevel::error, failure->message);
  if (const auto failure = write_html_report(plan_, placement_.node_rank, memory_.lines(), memory_.histories()))
    say_last(LogLevel::error, failure->message);
  if (plan_.summary_file.empty()) return;
  const std::string& file = plan_.summary_file;
  if (const auto failure = write_report(file, summary_document(plan_, outcome, end, evidence_, log_directory()),
                                        "--summary=" + file, Document::summary)) {
    say_last(LogLevel::error, failure->message);
  }
}

// A launcher that started this one as its worker reads the error where it reads the errors of all its workers.
std::optional<base::Failure> JobReporter::pass_error_upwards(const JobOutcome& outcome, int exit_code) const {
  const auto path = find_variable(plan_.inherited_environment, wire::env::kErrorFile);
  if (!path || path->empty() || exit_code == 0) return std::nullopt;
  const WorkerEnd* culprit = outcome.culprit();
  std::string record;
  if (culprit != nullptr && culprit->error) {
    std::error_code error;
    const std::string own = directory_.file(culprit->local_rank, "error.json");
    if (std::filesystem::is_regular_file(own, error)) record = base::read_file(own);
  }
  const std::string message = text_.empty() ? describe_failure(outcome) : text_.front();
  if (record.empty()) record = error_record_document(message, evidence_.last_lines, exit_code, wall_now());
  const wire::CauseCode code = code_of(outcome);
  return write_report(*path, with_cause_code(record, code == wire::CauseCode::none ? wire::CauseCode::launcher : code),
                      std::string(wire::env::kErrorFile) + "=" + *path, Document::any);
}

}  // namespace ddp::launcher
