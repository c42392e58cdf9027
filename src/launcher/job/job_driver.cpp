#include "launcher/job/job_driver.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/signals.h"
#include "base/text.h"
#include "launcher/job/restore_plan.h"
#include "launcher/limits.h"
#include "launcher/watchdog/verdict_text.h"

namespace ddp::launcher {

JobDriver::JobDriver(JobDriverParts parts) : parts_(std::move(parts)) {
  parts_.workers.on_exit([this](int local_rank, const WorkerExit& exit) { worker_has_ended(local_rank, exit); });
  post(Begin{});
}

void JobDriver::post(Turn turn) {
  queue_.push_back(std::move(turn));
  parts_.wake();
}

void JobDriver::work() {
  if (!queue_.empty()) {
    const Turn turn = std::move(queue_.front());
    queue_.pop_front();
    std::visit([this](const auto& specific) { handle(specific); }, turn);
  }
  if (queue_.empty() && !is_over()) proceed();
}

// Decides what to do when all events are processed. An attempt that was ended before it could begin never begins.
void JobDriver::proceed() {
  if (phase_ == Phase::leaving && link_->is_through()) return finish();
  if (phase_ != Phase::waiting) return;
  if (leave_) return leave();
  if (start_ && !parts_.workers.is_preparing()) begin_attempt(*std::exchange(start_, std::nullopt));
}

void JobDriver::handle(const Begin&) {
  if (auto failure = open_link()) return end_with(*failure);
  if (parts_.plan.gather_output) send_output_to_coordinator();
}

void JobDriver::handle(const Event& event) {
  if (const auto* signal = std::get_if<SignalArrived>(&event); signal != nullptr && link_) {
    if (signal->signal == SIGTSTP || signal->signal == SIGCONT) link_->set_paused(signal->signal == SIGTSTP);
  }
  switch (phase_) {
    case Phase::running:
      return step(event);
    case Phase::draining:
      note_request(event);
      // This event answers the question what the ranks are doing.
      if (std::holds_alternative<HangNews>(event)) parts_.observer.event(event);
      return;
    case Phase::ended:
    case Phase::waiting:
      if (in_haste_) return;
      return is_asked_while_waiting(event);
    case Phase::leaving:
      // A user who asks now does not want to wait until the other nodes know of the end. A console that closes requests
      // nothing more.
      if (request_in(event) && !std::holds_alternative<ConsoleClosed>(event)) finish();
  }
}

// --- These functions connect the driver to the other nodes.

std::optional<base::Failure> JobDriver::open_link() {
  link_.reset();
  auto link = parts_.open_link(
      {[this](const LinkEvent& event) { std::visit([this](const auto& specific) { hear(specific); }, event); },
       [this] { return parts_.workers.sockets(); }});
  if (!link) return link.error();
  link_ = std::move(link).value();
  if (parts_.plan.nodes.several()) parts_.observer.looks_for_nodes(link_->is_coordinator());
  if (const auto warning = link_->warning()) log(LogLevel::warning, *warning);
  return std::nullopt;
}

void JobDriver::handle(const FirstNode&) {
  if (leave_) return;
  if (auto failure = open_link()) leave_at_once(cause_of_own_fault(failure->message));
}

void JobDriver::handle(const LinkChanges&) {
  if (leave_ || !link_) return;
  auto link = link_->changed();
  if (!link) return;
  exchange_.go_on_with(*link);
  link_ = std::move(link);
}

void JobDriver::send_output_to_coordinator() {
  parts_.workers.print_elsewhere(
      [this](int which, std::string_view bytes) {
        if (!link_) return std::optional<std::size_t>();
        return link_->print(which == kStdout ? wire::Subject::output : wire::Subject::errors, bytes);
      },
      [this] { return link_ ? link_->print_descriptor() : -1; });
}

void JobDriver::hear(const Shown& shown) {
  if (shown.what == wire::Subject::output || shown.what == wire::Subject::errors) {
    if (!parts_.plan.gather_output) return;
    const int which = shown.what == wire::Subject::output ? kStdout : kStderr;
    return parts_.workers.show_of_node(shown.from, which, shown.text);
  }
  exchange_.shown(shown);
  if (phase_ == Phase::ended && !watchdog_->awaits_records()) end_when_known();
  // The difference is judged at once: the coordinator must know it before the end of the node's workers.
  if (phase_ != Phase::running && shown.what != wire::Subject::records) judge_late_difference();
}

// Peers outside the job may cause any number of store warnings.
void JobDriver::hear(const LogLine& line) {
  const bool is_limited = line.source == LogSource::store && line.level == LogLevel::warning;
  if (is_limited && (!are_warnings_due_ || ++store_warnings_ > limits::kStoreWarnings)) return;
  parts_.observer.log(line);
  if (is_limited && store_warnings_ == limits::kStoreWarnings) log(line.level, "further store warnings are not shown");
}

// --- These functions run an attempt.

void JobDriver::begin_attempt(const Placement& place) {
  place_ = place;
  has_reported_ = knows_cause_ = has_shown_end_ = ranks_differ_ = false;
  asked_to_end_at_.reset();
  store_warnings_ = 0;
  are_warnings_due_ = true;
  exchange_.begin(*link_, place);
  if (auto failure = parts_.workers.begin(place, describe_failure(outcome_))) return end_with(*failure);
  parts_.observer.attempt_begins(place);
  const LaunchPlan& plan = parts_.plan;
  state_.emplace(
      JobOptions{plan.workers, place.first_rank, plan.grace, plan.exit_timeout.count() > 0, plan.ending_signals,
                 plan.save_grace, plan.save_signals, place_.may_restart || !plan.image_dir.empty()},
      parts_.timers.now());
  watchdog_ = parts_.open_watchdog(exchange_, place, [this](const HangNews& news) { post(Event(news)); });
  phase_ = Phase::running;
  if (place_.image_cost > 0 || !plan.image_dir.empty()) look_after_states();
  post(StartWorker{0});
}

// Workers are started one at a time: a worker may fail, or query the store, while the others are still being started.
void JobDriver::handle(const StartWorker& turn) {
  if (phase_ != Phase::running) return;
  if (turn.local_rank == parts_.plan.workers || state_->ending()) {
    watchdog_->begin();
    faults_.emplace(parts_.timers, parts_.workers, parts_.plan, place_, parts_.observer.log);
    return;
  }
  const auto started = parts_.workers.start(turn.local_rank);
  if (!started) return step(SpawnFailed{turn.local_rank, started.error()});
  watchdog_->started(turn.local_rank, started.value().environment);
  step(WorkerStarted{turn.local_rank, started.value().pid});
  post(StartWorker{turn.local_rank + 1});
}

void JobDriver::step(const Event& event) {
  parts_.observer.event(event);
  const auto request = state_->asks_to_save(event) ? std::nullopt : note_request(event);
  const auto* end = std::get_if<WorkerEnd>(&event);
  if (end != nullptr && !end->status.success()) are_warnings_due_ = false;
  for (const Action& action : state_->step(event, parts_.timers.now())) {
    std::visit([this](const auto& specific) { carry_out(specific); }, action);
  }
  if (state_->ending()) are_warnings_due_ = false;
  watchdog_->set_paused(state_->paused());
  const auto* signal = std::get_if<SignalArrived>(&event);
  const bool asks_for_state = signal != nullptr && signal->signal == SIGQUIT && !request;
  if (asks_for_state && !state_->ending()) watchdog_->asked();
  if (state_->ending()) show_calls_once_ending();
  alarm_.reset();
  if (state_->finished()) return end_attempt();
  if (const auto when = state_->alarm()) {
    alarm_ = parts_.timers.at(*when, [this] { post(Event(AlarmRang{})); });
  }
}

void JobDriver::carry_out(const SendSignal& action) {
  parts_.observer.log({LogLevel::debug, LogSource::signals,
                       "sending " + base::signal_name(action.signal) + " to rank " +
                           std::to_string(place_.first_rank + action.local_rank)});
  const bool asks = action.signal == SIGINT || action.signal == SIGTERM;
  if (asks && state_->ending() && !asked_to_end_at_) asked_to_end_at_ = file_time_now();
  const bool is_sent = parts_.workers.signal(action.local_rank, action.signal, action.target);
  if (!is_sent && asks) post(Event(SignalRefused{action.local_rank}));
}

// Together with the calls of other nodes' ranks, the calls of these ranks may show more than how they ended. The
// coordinator must receive them first.
void JobDriver::carry_out(const ReportCause&) {
  state_->ending() ? show_calls_once_ending() : watchdog_->show_calls();
  has_reported_ = true;
  link_->failed(launcher::cause_of(state_->outcome()));
}

void JobDriver::carry_out(const AskForStates&) {
  parts_.workers.ask_for_states();
  look_for_states();
}

void JobDriver::look_for_states() {
  states_look_.reset();
  if (phase_ != Phase::running) return;
  if (parts_.workers.have_kept_states(state_->alive_local_ranks())) {
    StatesKept kept{parts_.workers.kept_states()};
    std::erase_if(kept.whole, [&](const wire::KeptState& state) {
      return state.kind != wire::StateKind::whole || state.attempt != place_.attempt;
    });
    return post(Event(kept));
  }
  states_look_ = parts_.timers.at(parts_.timers.now() + limits::kStateLook, [this] { look_for_states(); });
}

// Images may be made at any time, and the memory that the workers use grows.
void JobDriver::look_after_states() {
  room_look_.reset();
  if (phase_ != Phase::running) return;
  parts_.workers.look_after_states();
  room_look_ = parts_.timers.at(parts_.timers.now() + limits::kStateRoomLook, [this] { look_after_states(); });
}

void JobDriver::show_calls_once_ending() {
  if (std::exchange(has_shown_end_, true)) return;
  watchdog_->end();
  watchdog_->show_calls();
}

void JobDriver::worker_has_ended(int local_rank, const WorkerExit& exit) {
  if (phase_ != Phase::running) return;
  // A signal that was sent to get a stack may have woken a rank that hangs.
  if (const auto hang = state_->ending() ? std::nullopt : watchdog_->decided()) post(Event(*hang));
  WorkerEnd event{.local_rank = local_rank,
                  .status = exit.status,
                  .peak_rss_bytes = exit.peak_rss_bytes,
                  .gpu_uuid = parts_.workers.gpu_of(local_rank)};
  const int rank = place_.first_rank + local_rank;
  if (exit.status.success()) {
    event.verdict = watchdog_->unfinished(local_rank, /*failed_too=*/false);
    if (!state_->ending()) link_->rank_left(rank);
    return post(Event(event));
  }
  // The workers are notified before any of them is asked to end.
  parts_.workers.mark_peer_lost(rank);
  event.error = parts_.workers.error_at_end(local_rank, exit.status);
  if (event.error && asked_to_end_at_) event.error->is_after_signal = event.error->written_at >= asked_to_end_at_;
  if (event.error || !exit.status.was_killed())
    event.another_failed_before = another_failed_before(parts_.workers, state_->alive_local_ranks(), event.error);
  if (event.error) {
    if (event.error->is_secondary) event.verdict = watchdog_->unfinished(local_rank, /*failed_too=*/true);
    if (event.error->is_timeout) event.verdict = watchdog_->stall_of(rank);
    ranks_differ_ = ranks_differ_ || event.error->is_mismatch;
  }
  // PyTorch's calls are seen a moment after a rank has failed, so the ends of other ranks show more.
  if (ranks_differ_) {
    watchdog_->show_calls();
    if (auto difference = watchdog_->fatal_difference()) event.verdict = std::move(difference);
  }
  event.crash_place = parts_.workers.crash_place_of(local_rank, exit.status);
  if (exit.status.was_killed_by(SIGKILL)) {
    event.oom = parts_.workers.new_oom_kill();
    event.is_injected = has_injected_kill(parts_.plan, place_.attempt, rank);
  }
  post(Event(event));
}

void JobDriver::handle(const EndWorkers& turn) {
  // The attempt is over before a worker could be started.
  if (std::exchange(start_, std::nullopt)) return link_->workers_ended({});
  if (phase_ == Phase::draining || phase_ == Phase::ended) return learn(turn.cause);
  if (phase_ != Phase::running) return;
  if (turn.cause.is_urgent) return step(EndedElsewhere{turn.cause});
  if (has_reported_ && turn.cause.node == own_name()) return step(Settled{});
  if (turn.cause.exit_timed_out && place_.node_count == 1) return step(ExitTimedOut{});
  // The node of a rank that gave up knows only about its own ranks.
  const auto verdict =
      turn.cause.gave_up && link_->is_coordinator() ? watchdog_->stall_of(wire::kNoPeer) : std::nullopt;
  if (verdict) log(LogLevel::warning, hang_headline(*verdict) + ", until " + describe(turn.cause));
  step(EndedElsewhere{turn.cause});
}

// A console that accepts nothing delays the end of the attempt for a bounded time, and not at all once the user asks.
void JobDriver::end_attempt() {
  phase_ = Phase::draining;
  has_run_ = true;
  if (const int pending = faults_ ? faults_->pending() : 0; pending > 0) {
    log(LogLevel::warning, base::counted(pending, "fault") + " of --inject did not happen: the ranks exited earlier");
  }
  faults_.reset();
  outcome_ = state_->outcome();
  const WatchReport seen = watchdog_->finish();
  outcome_.stragglers = seen.stragglers;
  progress_ = seen.progress;
  const Remains remains = parts_.workers.end([this] { return is_asked_to_end(); }, outcome_.has_succeeded());
  outcome_.leftovers = remains.leftovers;
  if (remains.lost_lines > 0) {
    log(LogLevel::warning, base::counted(remains.lost_lines, "line") + (remains.lost_lines == 1 ? " was" : " were") +
                               " not shown: the console did not accept them (--log-dir keeps them, --lossless waits)");
  }
  post(OutputShown{});
}

// If no other node's workers run, the coordinator reports at once what follows, and the summary includes it.
void JobDriver::handle(const OutputShown&) {
  judge_late_difference();
  // A user who asked meanwhile does not want another attempt. If the job has succeeded, there is nothing to end.
  const bool is_done = outcome_.status.success() && place_.node_count == 1;
  if (request_ && !is_done) link_->failed(cause_of(*request_));
  if (!outcome_.unkillable.empty()) link_->failed(remains_of(outcome_));
  last_ = outcome_;
  what_follows_.clear();
  phase_ = Phase::ended;
  wire::NodeEnded end{.progress = progress_, .was_asked_to_save = outcome_.was_asked_to_save};
  if (place_.may_restart) end.kept = parts_.workers.kept_states();
  if (has_finished_step(end.kept, place_.attempt)) end.progress = wire::Progress::some;
  link_->workers_ended(std::move(end));
  end_when_known();
}

void JobDriver::learn(const wire::Cause& cause) {
  if (std::exchange(knows_cause_, true)) return;
  if (adopt_cause(outcome_, cause, own_name())) parts_.observer.event(EndedElsewhere{cause});
  if (phase_ != Phase::ended) return;
  if (last_) last_ = outcome_;
  end_when_known();
}

// Workers that lost another rank do not know the cause. The coordinator knows it, at the latest after its own wait. The
// last records of other nodes usually arrive with the end of their workers.
void JobDriver::end_when_known() {
  const bool doubts = parts_.plan.nodes.several() && outcome_.knowledge != wire::Knowledge::certain && !knows_cause_;
  if (!doubts && !watchdog_->awaits_records()) return post(AttemptOver{});
  const auto wait = doubts ? limits::kNamedPeerWait + limits::kSecondaryWait : limits::kRecordsLastWait;
  alarm_ = parts_.timers.at(parts_.timers.now() + wait, [this] { post(AttemptOver{}); });
}

void JobDriver::handle(const LeaveJob& turn) {
  leave_ = turn.cause;
  if (phase_ == Phase::draining || phase_ == Phase::ended) learn(turn.cause);
}

void JobDriver::handle(const AttemptFollows& turn) {
  last_.reset();
  if (phase_ != Phase::ended) return log(LogLevel::warning, turn.line);
  what_follows_ = turn.line;
}

void JobDriver::handle(const AttemptOver&) {
  if (phase_ != Phase::ended) return;  // the records have arrived in time
  alarm_.reset();
  phase_ = Phase::waiting;
  if (leave_) what_follows_ = leave_->not_restarted;
  if (leave_) outcome_.code_of_job = code_of_job(*leave_);
  parts_.observer.attempt_ended(outcome_, what_follows_, /*is_last=*/leave_ && !parts_.plan.nodes.several());
}

// Ranks that found different calls may have ended before all of them were seen. Their status pages remain.
void JobDriver::judge_late_difference() {
  const auto difference = watchdog_ ? watchdog_->late_difference() : std::nullopt;
  if (difference) link_->failed(cause_of(*difference));
}

// --- These functions act between attempts, and at the end.

std::optional<SignalArrived> JobDriver::note_request(const Event& event) {
  const auto request = request_in(event);
  if (request && !std::exchange(request_, request)) requested_at_ = parts_.timers.now();
  return request;
}

bool JobDriver::is_asked_to_end() const {
  return request_ || is_asked_again();
}

bool JobDriver::is_asked_again() const {
  return std::ranges::any_of(queue_, [this](const Turn& turn) {
    const auto* event = std::get_if<Event>(&turn);
    return event != nullptr && request_in(*event);
  });
}

void JobDriver::is_asked_while_waiting(const Event& event) {
  parts_.observer.event(event);
  if (std::holds_alternative<GuardianLost>(event)) {
    asked_ = GuardianLost{};
    return leave_at_once(cause_of_own_fault("the launcher's first process was killed"));
  }
  const auto request = request_in(event);
  const bool was_asked = !std::holds_alternative<std::monostate>(asked_);
  // Ctrl-C also closes the other end of a pipeline.
  if (!request || (was_asked && std::holds_alternative<ConsoleClosed>(event))) return;
  // A user who asks again does not want to wait until the other nodes know of it.
  if (was_asked) {
    link_->failed(urgent_cause_of(*request));
    return leave_at_once(cause_of(*request));
  }
  asked_ = *request;
  // The first request may have come while this node's workers still ran.
  const bool is_second = request_ && parts_.timers.now() - requested_at_ >= limits::kSecondRequest;
  link_->failed(is_second ? urgent_cause_of(*request) : cause_of(*request));
}

// Leaves without a message: the other nodes see the connection end. If the job's end is known, it stays the cause.
void JobDriver::leave_at_once(const wire::Cause& cause) {
  if (!leave_) leave_ = cause;
  in_haste_ = true;
  if (phase_ == Phase::ended) post(AttemptOver{});
}

void JobDriver::finish() {
  link_.reset();  // what remains to be done may take long, and no other node has to wait for that
  if (!in_haste_) parts_.workers.finish_images([this] { return is_asked_again(); });
  parts_.workers.finish_output();
  const Conclusion end =
      conclude({last_, what_follows_, asked_, in_haste_, !parts_.plan.nodes.several(), has_run_, own_name()}, *leave_);
  if (end.was_ended_between_attempts) parts_.observer.ended_between_attempts(end.outcome);
  if (end.is_from_another_node) parts_.observer.event(EndedElsewhere{*leave_});
  if (!end.line.empty()) log(end.level, end.line);
  end_with(end.outcome);
}

void JobDriver::end_with(base::Result<JobOutcome> result) {
  link_.reset();
  result_.emplace(std::move(result));
  queue_.clear();
}

}  // namespace ddp::launcher
