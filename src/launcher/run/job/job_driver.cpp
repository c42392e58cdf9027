#include "launcher/run/job/job_driver.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/signals.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/restore_plan.h"
#include "launcher/run/watchdog/verdict_text.h"

namespace ddp::launcher {

JobDriver::JobDriver(JobDriverParts parts)
    : parts_(std::move(parts)), cycle_(parts_.plan.host_name, parts_.plan.nodes.several(), parts_.plan.ending_signals) {
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
  // What follows is decided when all events are processed.
  if (!queue_.empty() || is_over()) return;
  carry_out(cycle_.proceed(parts_.workers.is_preparing(), !link_ || link_->is_through()));
}

void JobDriver::carry_out(const AttemptCycle::Actions& actions) {
  for (const CycleAction& action : actions) {
    if (!is_over()) std::visit([this](const auto& specific) { carry_out(specific); }, action);
  }
}

void JobDriver::handle(const Begin&) {
  if (auto failure = open_link()) return end_with(*failure);
  if (parts_.plan.gather_output) send_output_to_coordinator();
}

void JobDriver::handle(const Event& event) {
  if (const auto* signal = std::get_if<SignalArrived>(&event); signal != nullptr && link_) {
    if (signal->signal == SIGTSTP || signal->signal == SIGCONT) link_->set_paused(signal->signal == SIGTSTP);
  }
  carry_out(cycle_.happened(event, parts_.timers.now()));
}

// --- These functions connect the driver to the other nodes.

std::optional<base::Failure> JobDriver::open_link() {
  link_.reset();
  auto link = parts_.open_link(
      {[this](const LinkEvent& event) { std::visit([this](const auto& specific) { hear(specific); }, event); },
       [this] { return parts_.workers.sockets(); }});
  if (!link) return link.error();
  link_ = std::move(link).value();
  if (parts_.plan.nodes.several()) parts_.observer.searches_for_nodes(link_->is_coordinator());
  if (const auto warning = link_->warning(); warning && parts_.plan.store.warns) log(LogLevel::warning, *warning);
  return std::nullopt;
}

void JobDriver::handle(const FirstNode&) {
  if (cycle_.knows_end()) return;
  if (auto failure = open_link()) carry_out(cycle_.leave_at_once(cause_of_own_fault(failure->message)));
}

void JobDriver::handle(const LinkChanges&) {
  if (cycle_.knows_end() || !link_) return;
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
  if (cycle_.has_ended() && !watchdog_->awaits_records()) carry_out(AwaitCause{});
  // The difference is judged at once: the coordinator must know it before the end of the node's workers.
  if (!cycle_.is_running() && shown.what != wire::Subject::records) judge_late_difference();
}

// Peers outside the job may cause any number of store warnings.
void JobDriver::hear(const LogLine& line) {
  const bool is_limited = line.source == LogSource::store && line.level == LogLevel::warning;
  if (is_limited && (!are_warnings_due_ || ++store_warnings_ > limits::kStoreWarnings)) return;
  parts_.observer.log(line);
  if (is_limited && store_warnings_ == limits::kStoreWarnings) log(line.level, "further store warnings are not shown");
}

// --- These functions run an attempt.

void JobDriver::carry_out(const BeginAttempt&) {
  const Placement& place = cycle_.place();
  has_shown_end_ = ranks_differ_ = false;
  asked_to_end_at_.reset();
  store_warnings_ = 0;
  are_warnings_due_ = true;
  exchange_.begin(*link_, place);
  if (auto failure = parts_.workers.begin(place, describe_failure(cycle_.outcome()))) return end_with(*failure);
  parts_.observer.attempt_begins(place);
  const LaunchPlan& plan = parts_.plan;
  state_.emplace(
      JobOptions{plan.workers, place.first_rank, plan.grace, plan.exit_timeout.count() > 0, plan.ending_signals,
                 plan.save_grace, plan.save_signals, place.may_restart || !plan.image_dir.empty()},
      parts_.timers.now());
  watchdog_ = parts_.open_watchdog(exchange_, place, [this](const HangNews& news) { post(Event(news)); });
  if (place.image_cost > 0 || !plan.image_dir.empty()) check_states();
  post(StartWorker{0});
}

// Workers are started one at a time: a worker may fail, or query the store, while the others are still being started.
void JobDriver::handle(const StartWorker& turn) {
  if (!cycle_.is_running()) return;
  if (turn.local_rank == parts_.plan.workers || state_->ending()) {
    watchdog_->begin();
    faults_.emplace(parts_.timers, parts_.workers, parts_.plan, cycle_.place(), parts_.observer.log);
    return;
  }
  const auto started = parts_.workers.start(turn.local_rank);
  if (!started) return supervise(SpawnFailed{turn.local_rank, started.error()});
  watchdog_->started(turn.local_rank, started.value().environment);
  supervise(WorkerStarted{turn.local_rank, started.value().pid});
  post(StartWorker{turn.local_rank + 1});
}

void JobDriver::carry_out(const Supervise& action) {
  const Event& event = action.event;
  parts_.observer.event(event);
  const auto request = state_->asks_to_save(event) ? std::nullopt : cycle_.note_request(event, parts_.timers.now());
  const auto* end = std::get_if<WorkerEnd>(&event);
  if (end != nullptr && !end->status.success()) are_warnings_due_ = false;
  for (const Action& next : state_->step(event, parts_.timers.now())) {
    std::visit([this](const auto& specific) { carry_out(specific); }, next);
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
                           std::to_string(cycle_.place().first_rank + action.local_rank)});
  const bool asks = action.signal == SIGINT || action.signal == SIGTERM;
  if (asks && state_->ending() && !asked_to_end_at_) asked_to_end_at_ = file_time_now();
  const bool is_sent = parts_.workers.signal(action.local_rank, action.signal, action.target);
  if (!is_sent && asks) post(Event(SignalRefused{action.local_rank}));
}

// Together with the calls of other nodes' ranks, the calls of these ranks may show more than how they ended. The
// coordinator must receive them first.
void JobDriver::carry_out(const ReportCause&) {
  state_->ending() ? show_calls_once_ending() : watchdog_->show_calls();
  cycle_.has_reported();
  wire::Cause cause = launcher::cause_of(state_->outcome());
  // Another attempt would hang as well, so the ways are checked before it.
  if (parts_.plan.fallback && cause.code == wire::CauseCode::transport) {
    cause.may_restart = false;
    cause.not_restarted = "the ways are checked first (--fallback)";
  }
  link_->failed(cause);
}

void JobDriver::carry_out(const AskForStates&) {
  parts_.workers.ask_for_states();
  poll_states();
}

void JobDriver::poll_states() {
  states_timer_.reset();
  if (!cycle_.is_running()) return;
  if (parts_.workers.have_kept_states(state_->alive_local_ranks())) {
    StatesKept kept{parts_.workers.kept_states()};
    std::erase_if(kept.whole, [&](const wire::KeptState& state) {
      return state.kind != wire::StateKind::whole || state.attempt != cycle_.place().attempt;
    });
    return post(Event(kept));
  }
  states_timer_ = parts_.timers.at(parts_.timers.now() + limits::kStatePoll, [this] { poll_states(); });
}

// Images may be made at any time, and the memory that the workers use grows.
void JobDriver::check_states() {
  room_timer_.reset();
  if (!cycle_.is_running()) return;
  parts_.workers.check_states();
  room_timer_ = parts_.timers.at(parts_.timers.now() + limits::kStateRoomPoll, [this] { check_states(); });
}

void JobDriver::show_calls_once_ending() {
  if (std::exchange(has_shown_end_, true)) return;
  watchdog_->end();
  watchdog_->show_calls();
}

void JobDriver::worker_has_ended(int local_rank, const WorkerExit& exit) {
  if (!cycle_.is_running()) return;
  // A signal that was sent to get a stack may have woken a rank that hangs.
  if (const auto hang = state_->ending() ? std::nullopt : watchdog_->decided()) post(Event(*hang));
  WorkerEnd event{.local_rank = local_rank,
                  .status = exit.status,
                  .peak_rss_bytes = exit.peak_rss_bytes,
                  .gpu_uuid = parts_.workers.gpu_of(local_rank)};
  const int rank = cycle_.place().first_rank + local_rank;
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
    event.is_injected = has_injected_kill(parts_.plan, cycle_.place().attempt, rank);
  }
  post(Event(event));
}

void JobDriver::carry_out(const ExplainWait& action) {
  const auto verdict = link_->is_coordinator() ? watchdog_->stall_of(wire::kNoPeer) : std::nullopt;
  if (verdict) log(LogLevel::warning, hang_headline(*verdict) + ", until " + describe(action.cause));
}

// A console that accepts nothing delays the end of the attempt for a bounded time, and not at all once the user asks.
void JobDriver::end_attempt() {
  cycle_.drains();
  if (const int pending = faults_ ? faults_->pending() : 0; pending > 0) {
    log(LogLevel::warning, base::counted(pending, "fault") + " of --inject did not happen: the ranks exited earlier");
  }
  faults_.reset();
  JobOutcome outcome = state_->outcome();
  const WatchReport seen = watchdog_->finish();
  outcome.stragglers = seen.stragglers;
  progress_ = seen.progress;
  const Remains remains =
      parts_.workers.end([this] { return cycle_.request() || is_asked_again(); }, outcome.has_succeeded());
  outcome.leftovers = remains.leftovers;
  if (remains.lost_lines > 0) {
    log(LogLevel::warning, base::counted(remains.lost_lines, "line", "was", "were") +
                               " not shown: the console did not accept them (--log-dir keeps them, --lossless waits)");
  }
  cycle_.has_ended_with(std::move(outcome));
  post(OutputShown{});
}

void JobDriver::handle(const OutputShown&) {
  judge_late_difference();
  carry_out(cycle_.output_was_shown());
}

void JobDriver::carry_out(const ReportEnd& action) {
  wire::NodeEnded end;
  if (action.has_run) {
    const Placement& place = cycle_.place();
    end.progress = progress_;
    end.was_asked_to_save = cycle_.outcome().was_asked_to_save;
    if (place.may_restart) end.kept = parts_.workers.kept_states();
    if (has_finished_step(end.kept, place.attempt)) end.progress = wire::Progress::some;
  }
  link_->workers_ended(std::move(end));
}

void JobDriver::carry_out(const AwaitCause&) {
  const auto wait = cycle_.wait_for_cause(watchdog_->awaits_records());
  if (!wait) return post(AttemptOver{});
  alarm_ = parts_.timers.at(parts_.timers.now() + *wait, [this] { post(AttemptOver{}); });
}

void JobDriver::handle(const AttemptOver&) {
  if (cycle_.has_ended()) alarm_.reset();
  carry_out(cycle_.attempt_is_over());
}

// Ranks that found different calls may have ended before all of them were seen. Their status pages remain.
void JobDriver::judge_late_difference() {
  const auto difference = watchdog_ ? watchdog_->late_difference() : std::nullopt;
  if (difference) link_->failed(cause_of(*difference));
}

bool JobDriver::is_asked_again() const {
  return std::ranges::any_of(queue_, [this](const Turn& turn) {
    const auto* event = std::get_if<Event>(&turn);
    return event != nullptr && cycle_.request_in(*event);
  });
}

void JobDriver::carry_out(const Leave&) {
  link_.reset();  // what remains to be done may take long, and no other node has to wait for that
  if (!cycle_.is_in_haste()) parts_.workers.finish_images([this] { return is_asked_again(); });
  parts_.workers.finish_output();
  const Conclusion end = cycle_.conclusion();
  if (end.was_ended_between_attempts) parts_.observer.ended_between_attempts(end.outcome);
  if (end.is_from_another_node) parts_.observer.event(EndedElsewhere{cycle_.cause()});
  if (!end.line.empty()) log(end.level, end.line);
  end_with(end.outcome);
}

void JobDriver::end_with(base::Result<JobOutcome> result) {
  link_.reset();
  result_.emplace(std::move(result));
  queue_.clear();
}

}  // namespace ddp::launcher
