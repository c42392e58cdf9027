#include "launcher/run/job/job_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/exit_code.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {

JobState::JobState(const JobOptions& options, TimePoint now)
    : options_(options), start_(now), now_(now), workers_(static_cast<std::size_t>(options.workers)) {
  clock_.pass_until(now);
}

std::vector<Action> JobState::step(const Event& event, TimePoint now) {
  now_ = now;
  clock_.pass_until(now);
  if (!finished()) std::visit([this](const auto& specific) { handle(specific); }, event);
  return std::exchange(actions_, {});
}

std::optional<TimePoint> JobState::alarm() const {
  std::optional<JobTime> next;
  for (const auto& when : {tell_at_, escalate_at_, note_at_, save_until_, keep_until_}) {
    if (when && (!next || *when < *next)) next = when;
  }
  if (!next || paused()) return std::nullopt;
  return clock_.when(*next);
}

void JobState::handle(const WorkerStarted& event) {
  Worker& worker = workers_.at(static_cast<std::size_t>(event.local_rank));
  DDP_CHECK(phase_ == Phase::running, event.local_rank);
  worker = {.pid = event.pid, .started = true, .alive = true};
}

void JobState::end_for(RootCause cause) {
  if (phase_ == Phase::running) begin_ending(std::move(cause));
  finish_if_done();
}

void JobState::handle(const WorkerEnd& event) {
  Worker& worker = workers_.at(static_cast<std::size_t>(event.local_rank));
  DDP_CHECK(worker.alive, event.local_rank);
  worker.alive = false;
  WorkerEnd end = event;
  end.rank = rank_of(event.local_rank);
  end.pid = worker.pid;
  end.when = now_;
  end.after_signal = worker.signalled;
  end.after_kill = worker.killed;
  // A worker that is asked to end may do so in the middle of any operation.
  if (worker.signalled && end.status.success()) end.verdict.reset();
  ends_.push_back(end);
  const bool is_done = end.status.success() && !end.verdict;
  if (phase_ == Phase::running && is_done && !options_.has_exit_timeout) note_at_ = clock_.now() + limits::kExitNote;
  if (phase_ == Phase::running && !is_done) {
    // Some schedulers signal the workers and the launcher at the same moment. Then that signal is what ends the job.
    const bool may_be_asked = base::contains(options_.ending_signals, end.status.signal());
    if (!others_know_more(end) && !may_be_asked) {
      begin_ending();
    } else if (!doubt_) {
      const bool knows_little =
          end.is_secondary() || end.another_failed_before || (end.found_mismatch() && !end.verdict);
      doubt_ = knows_little ? wire::Knowledge::secondary : wire::Knowledge::disputed;
      expects_signal_ = may_be_asked;
      if (options_.keeps_states) actions_.emplace_back(AskForStates{});
      actions_.emplace_back(ReportCause{});
    }
  }
  finish_if_done();
}

void JobState::handle(const SignalArrived& event) {
  if (event.signal == SIGTSTP) return pause();
  if (event.signal == SIGCONT) return resume();
  if (asks_to_save(event)) return ask_to_save(event);
  if (!base::contains(options_.ending_signals, event.signal)) {
    if (event.signal == SIGQUIT) return;  // it asks the launcher what all ranks are doing
    return signal_workers(event.signal, SignalTarget::leader);
  }
  if (phase_ == Phase::running) {
    // A request after one to save is a second one.
    begin_ending(SignalArrived{event.signal, event.reason, event.ends_job || save_request_});
    finish_if_done();
  } else if (phase_ == Phase::ending && now_ - cause_time_ >= limits::kSecondRequest) {
    // The user asks again and does not want to wait anymore. Signals close together are one request: a terminal that
    // closes and some service managers send several.
    resume();
    begin_killing(KillReason::asked_to_end);
    actions_.emplace_back(ReportUrgency{});
  }
}

bool JobState::asks_to_save(const Event& event) const {
  const auto* arrived = std::get_if<SignalArrived>(&event);
  return arrived != nullptr && phase_ == Phase::running && options_.save_grace.count() > 0 && !save_request_ &&
         base::contains(options_.save_signals, arrived->signal);
}

void JobState::ask_to_save(const SignalArrived& event) {
  save_request_ = event;
  save_until_ = clock_.now() + options_.save_grace;
  actions_.emplace_back(AskToSave{});
  const std::string why = event.reason.empty() ? base::signal_name(event.signal) : event.reason;
  actions_.emplace_back(LogLine{LogLevel::note, LogSource::job,
                                why + ": the program is asked to save and exit; the workers will be terminated in " +
                                    base::human_duration(options_.save_grace) +
                                    " (--save-grace), or on a second request"});
}

void JobState::handle(const GuardianLost& event) {
  if (phase_ == Phase::running) begin_ending(event);
  if (phase_ == Phase::ending) begin_killing(KillReason::guardian_lost);
  finish_if_done();
}

void JobState::handle(const HangNews& event) {
  if (phase_ != Phase::running || event.kind != HangNews::Kind::hung || !event.ends_job) return;
  begin_ending(event);
}

void JobState::handle(const EndedElsewhere& event) {
  if (phase_ == Phase::running) begin_ending(event);
  if (phase_ == Phase::ending && event.cause.is_urgent) {
    resume();
    begin_killing(KillReason::asked_to_end);
  }
  finish_if_done();
}

void JobState::handle(const Settled&) {
  if (phase_ != Phase::running || !doubt_) return;
  begin_ending();
  finish_if_done();
}

void JobState::handle(const StatesKept&) {
  if (phase_ != Phase::ending || !keep_until_) return;
  end_workers();
  finish_if_done();
}

void JobState::handle(const SignalRefused& event) {
  workers_.at(static_cast<std::size_t>(event.local_rank)).refuses_signals = true;
}

void JobState::pause() {
  if (paused()) return;
  clock_.set_standing_still(true);
  signal_workers(SIGSTOP, SignalTarget::group);
}

void JobState::resume() {
  if (!paused()) return;
  clock_.set_standing_still(false);
  signal_workers(SIGCONT, SignalTarget::group);
}

void JobState::signal_workers(int signal, SignalTarget target) {
  for (int i = 0; i < options_.workers; ++i) {
    if (workers_[static_cast<std::size_t>(i)].alive) actions_.emplace_back(SendSignal{i, signal, target});
  }
}

void JobState::handle(const AlarmRang&) {
  if (paused()) return;
  if (note_at_ && clock_.now() >= *note_at_) {
    note_at_.reset();
    actions_.emplace_back(LogLine{LogLevel::note, LogSource::job, describe_early_ends()});
    actions_.emplace_back(ReportState{});
  }
  if (save_until_ && clock_.now() >= *save_until_) {
    const bool ends = base::contains(options_.ending_signals, save_request_->signal);
    return end_for(
        SignalArrived{ends ? save_request_->signal : SIGTERM, "the time to save (--save-grace) has expired"});
  }
  if (keep_until_ && clock_.now() >= *keep_until_) return end_workers();
  if (escalate_at_ && clock_.now() >= *escalate_at_) {
    if (phase_ == Phase::killing) return finish();
    if (asked_with_.back() == SIGINT) return ask_to_end(SIGTERM);
    begin_killing(KillReason::grace_over);
  }
  if (!tell_at_ || clock_.now() < *tell_at_) return;
  tell_at_.reset();
  actions_.emplace_back(LogLine{LogLevel::warning, LogSource::job, describe_wait()});
}

std::string JobState::describe_wait() const {
  if (keep_until_) {
    return describe_cause() + ": waiting for " + base::ranks_text(alive_ranks()) +
           " to keep the state in memory (for at most " + base::human_duration(limits::kStateTime) + ")";
  }
  std::vector<int> refusing;
  for (const int local_rank : alive_local_ranks()) {
    if (workers_[static_cast<std::size_t>(local_rank)].refuses_signals) refusing.push_back(rank_of(local_rank));
  }
  std::vector<std::string> parts;
  if (refusing.size() < alive_local_ranks().size()) {
    const bool is_interrupt = asked_with_.back() == SIGINT;
    parts.push_back(phase_ == Phase::killing
                        ? "SIGKILL sent"
                        : std::string(is_interrupt ? "SIGINT sent, SIGTERM" : "SIGTERM sent, SIGKILL") +
                              " follows in " + base::human_duration(*escalate_at_ - clock_.now()) +
                              (!std::holds_alternative<SignalArrived>(cause_) ? ""
                               : is_interrupt ? "; a second request sends SIGKILL at once"
                                              : ", or on a second request"));
  }
  if (!refusing.empty()) {
    parts.push_back(base::ranks_text(refusing, "runs", "run") +
                    " as another user, whose processes the launcher may not signal");
  }
  return describe_cause() + ": waiting for " + base::ranks_text(alive_ranks()) + " to exit (" +
         base::join(parts, "; ") + "; see --grace)";
}

std::string JobState::describe_early_ends() const {
  std::vector<int> ended;
  for (const WorkerEnd& end : ends_) ended.push_back(end.rank);
  std::ranges::sort(ended);
  const std::vector<int> alive = alive_ranks();
  return base::ranks_text(ended) + " exited with code 0; " + base::ranks_text(alive, "is", "are") + " still running " +
         base::human_duration(limits::kExitNote) + " later. The job continues (--exit-timeout=SECONDS terminates it)";
}

std::string JobState::describe_cause() const {
  if (const auto* request = std::get_if<SignalArrived>(&cause_)) return base::signal_name(request->signal);
  if (std::holds_alternative<SpawnFailed>(cause_)) return "a worker could not be started";
  if (std::holds_alternative<HangNews>(cause_)) return "the job hangs";
  if (std::holds_alternative<ExitTimedOut>(cause_)) return "the other ranks exited long ago";
  if (!std::holds_alternative<std::monostate>(cause_)) {
    JobOutcome so_far;
    so_far.cause = cause_;
    return describe_failure(so_far);
  }
  const WorkerEnd* cause = find_culprit(ends_);
  DDP_CHECK(cause != nullptr);
  return "rank " + std::to_string(cause->rank) + " failed (" + cause->status.describe() + ")";
}

void JobState::begin_ending(RootCause cause) {
  cause_ = std::move(cause);
  begin_ending();
}

void JobState::begin_ending() {
  resume();
  phase_ = Phase::ending;
  cause_time_ = now_;
  doubt_.reset();
  note_at_.reset();
  save_until_.reset();
  if (may_keep_states()) {
    keep_until_ = clock_.now() + limits::kStateTime;
    tell_at_ = clock_.now() + limits::kQuietEnding;
    actions_.emplace_back(AskForStates{});
  } else {
    end_workers();
  }
  if (!std::holds_alternative<EndedElsewhere>(cause_)) actions_.emplace_back(ReportCause{});
}

// A request to end the job is no failure, unless the other nodes go on.
bool JobState::may_keep_states() const {
  if (!options_.keeps_states) return false;
  if (const auto* elsewhere = std::get_if<EndedElsewhere>(&cause_)) return elsewhere->cause.may_restart;
  return std::holds_alternative<std::monostate>(cause_) || std::holds_alternative<HangNews>(cause_) ||
         std::holds_alternative<ExitTimedOut>(cause_);
}

// Returns the signal with which a user has asked for the end, or 0 if something else is the cause.
int JobState::asked_by() const {
  if (const auto* request = std::get_if<SignalArrived>(&cause_)) return request->signal;
  const auto* elsewhere = std::get_if<EndedElsewhere>(&cause_);
  return elsewhere == nullptr ? 0 : elsewhere->cause.signal;
}

void JobState::end_workers() {
  keep_until_.reset();
  tell_at_ = clock_.now() + limits::kQuietEnding;
  ask_to_end(asked_by() == SIGINT ? SIGINT : SIGTERM);
}

void JobState::ask_to_end(int signal) {
  asked_with_.push_back(signal);
  escalate_at_ = clock_.now() + options_.grace;
  // SIGTERM is sent to the leader only. Its children get it when the leader has ended.
  const SignalTarget target = signal == SIGINT ? SignalTarget::group : SignalTarget::leader;
  for (int i = 0; i < options_.workers; ++i) {
    Worker& worker = workers_[static_cast<std::size_t>(i)];
    if (!worker.alive) continue;
    worker.signalled = true;
    // A stopped process does not see the signal until it is continued.
    actions_.emplace_back(SendSignal{i, signal, target});
    actions_.emplace_back(SendSignal{i, SIGCONT, SignalTarget::group});
  }
}

void JobState::begin_killing(KillReason why) {
  phase_ = Phase::killing;
  keep_until_.reset();
  needed_kill_ = true;
  kill_reason_ = why;
  escalate_at_ = clock_.now() + limits::kUnkillableWait;
  for (Worker& worker : workers_) worker.killed = true;
  signal_workers(SIGKILL, SignalTarget::group);
}

void JobState::finish_if_done() {
  const bool any_alive = std::ranges::any_of(workers_, [](const Worker& w) { return w.alive; });
  const bool all_ended = ends_.size() == workers_.size();
  if (all_ended && phase_ == Phase::running && expects_signal_ && doubt_) return;
  // While the job ends, workers that were never started are not waited for.
  if (all_ended || (phase_ != Phase::running && !any_alive)) finish();
}

void JobState::finish() {
  if (phase_ == Phase::running) {
    cause_time_ = now_;
    if (find_culprit(ends_) != nullptr) actions_.emplace_back(ReportCause{});
  }
  phase_ = Phase::finished;
  end_time_ = now_;
  tell_at_.reset();
  escalate_at_.reset();
  note_at_.reset();
  save_until_.reset();
  keep_until_.reset();
  clock_.set_standing_still(false);
}

std::vector<int> JobState::alive_local_ranks() const {
  std::vector<int> ranks;
  for (int i = 0; i < options_.workers; ++i) {
    if (workers_[static_cast<std::size_t>(i)].alive) ranks.push_back(i);
  }
  return ranks;
}

std::vector<int> JobState::alive_ranks() const {
  std::vector<int> ranks = alive_local_ranks();
  for (int& rank : ranks) rank += options_.first_rank;
  return ranks;
}

void JobState::add_cause(JobOutcome& outcome) const {
  using base::ExitStatus;
  outcome.cause = cause_;
  if (const auto* request = std::get_if<SignalArrived>(&cause_)) {
    outcome.status = ExitStatus::killed(request->signal);
  } else if (const auto* failed = std::get_if<SpawnFailed>(&cause_)) {
    outcome.status = ExitStatus::exited(failed->failure.exit_code);
  } else if (std::holds_alternative<GuardianLost>(cause_)) {
    outcome.status = ExitStatus::exited(base::kExitOwnFault);
  } else if (const auto* elsewhere = std::get_if<EndedElsewhere>(&cause_)) {
    outcome.status = ExitStatus::exited(elsewhere->cause.exit_code);
  } else if (!std::holds_alternative<std::monostate>(cause_)) {
    outcome.status = ExitStatus::exited(base::kExitHung);
  } else if (const WorkerEnd* culprit = find_culprit(ends_)) {
    outcome.cause = WorkerFailed{*culprit, verdict_on(*culprit, ends_)};
    outcome.knowledge = std::min(knowledge_of(*culprit, ends_), doubt_.value_or(wire::Knowledge::certain));
    // It is not known how this worker would have ended, and when.
    const WorkerEnd& known = culprit->is_our_doing() ? *find_first_failure(ends_) : *culprit;
    outcome.run_time = known.when - start_;  // excludes the wait after a secondary failure
    outcome.status = ExitStatus::exited(known.status.success() ? base::kExitHung : known.status.shell_code());
  } else if (save_request_) {
    outcome.has_saved = true;
    outcome.status = ExitStatus::exited(base::kExitSaved);
  }
}

JobOutcome JobState::outcome() const {
  JobOutcome outcome;
  outcome.was_asked_to_save = save_request_.has_value();
  outcome.ends = ends_;
  outcome.run_time = cause_time_ - start_;
  outcome.ending_time = end_time_ - cause_time_;
  outcome.asked_with = asked_with_;
  outcome.needed_kill = needed_kill_;
  outcome.kill_reason = kill_reason_;
  for (int i = 0; i < options_.workers; ++i) {
    const Worker& worker = workers_[static_cast<std::size_t>(i)];
    if (!worker.started) outcome.not_started.push_back(rank_of(i));
    if (worker.alive) outcome.unkillable.push_back({rank_of(i), worker.pid});
  }
  add_cause(outcome);
  const WorkerEnd* cause = find_culprit(ends_);
  const bool others_left_early = cause != nullptr || outcome.cause_as<EndedElsewhere>() != nullptr ||
                                 outcome.cause_as<ExitTimedOut>() != nullptr || outcome.cause_as<HangNews>() != nullptr;
  for (const WorkerEnd& end : ends_) {
    if (&end == cause && outcome.culprit() != nullptr) continue;
    const bool was_asked_too = asked_by() != 0 && end.status.was_killed_by(asked_by());
    // A worker that responds to the launcher's signal with its own exit code has obeyed. A worker that crashes has not.
    if (failed_by_itself(end) && !was_asked_too && (!end.after_signal || end.status.was_killed())) {
      outcome.also_failed.push_back(end);
    } else if (end.after_signal || was_asked_too) {
      outcome.ended_ranks.push_back(end.rank);
    } else if (others_left_early) {
      outcome.left_early.push_back(end.rank);
    }
  }
  std::ranges::sort(outcome.ended_ranks);
  return outcome;
}

}  // namespace ddp::launcher
