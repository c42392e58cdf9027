#include "launcher/run/job/attempt_cycle.h"

#include <utility>

#include "launcher/limits.h"

namespace ddp::launcher {

AttemptCycle::Actions AttemptCycle::happened(const Event& event, TimePoint now) {
  switch (phase_) {
    case Phase::running:
      return {Supervise{event}};
    case Phase::draining:
      note_request(event, now);
      // This event answers the question what the ranks are doing.
      return std::holds_alternative<HangNews>(event) ? Actions{ShowEvent{event}} : Actions();
    case Phase::ended:
    case Phase::waiting:
      return in_haste_ ? Actions() : asked_while_waiting(event, now);
    case Phase::leaving:
      // A user who asks now does not want to wait until the other nodes know of the end. A console that closes requests
      // nothing more.
      return request_in(event) && !std::holds_alternative<ConsoleClosed>(event) ? Actions{Leave{}} : Actions();
  }
  return {};
}

AttemptCycle::Actions AttemptCycle::happened(const StartAttempt& event) {
  start_ = event.place;
  return {};
}

AttemptCycle::Actions AttemptCycle::happened(const EndWorkers& event) {
  const wire::Cause& cause = event.cause;
  // The attempt is over before a worker could be started.
  if (std::exchange(start_, std::nullopt)) return {ReportEnd{.has_run = false}};
  if (phase_ == Phase::draining || phase_ == Phase::ended) return learn(cause);
  if (phase_ != Phase::running) return {};
  if (cause.is_urgent) return {Supervise{EndedElsewhere{cause}}};
  if (has_reported_ && cause.node == own_name()) return {Supervise{Settled{}}};
  if (cause.exit_timed_out && place_.node_count == 1) return {Supervise{ExitTimedOut{}}};
  Actions actions;
  // The node of a rank that gave up knows only about its own ranks.
  if (cause.gave_up) actions.emplace_back(ExplainWait{cause});
  actions.emplace_back(Supervise{EndedElsewhere{cause}});
  return actions;
}

AttemptCycle::Actions AttemptCycle::happened(const AttemptFollows& event) {
  last_.reset();
  if (phase_ != Phase::ended) return {LogLine{LogLevel::warning, LogSource::job, event.line}};
  what_follows_ = event.line;
  return {};
}

AttemptCycle::Actions AttemptCycle::happened(const LeaveJob& event) {
  leave_ = event.cause;
  return phase_ == Phase::draining || phase_ == Phase::ended ? learn(event.cause) : Actions();
}

std::optional<SignalArrived> AttemptCycle::note_request(const Event& event, TimePoint now) {
  const auto request = request_in(event);
  if (request && !std::exchange(request_, request)) requested_at_ = now;
  return request;
}

void AttemptCycle::has_ended_with(JobOutcome outcome) {
  outcome_ = std::move(outcome);
  has_run_ = true;
}

// If no other node's workers run, the coordinator reports at once what follows, and the summary includes it.
AttemptCycle::Actions AttemptCycle::output_was_shown() {
  Actions actions;
  // A user who asked meanwhile does not want another attempt. If the job has succeeded, there is nothing to end.
  const bool is_done = outcome_.status.success() && place_.node_count == 1;
  if (request_ && !is_done) actions.emplace_back(ReportFailure{cause_of(*request_)});
  if (!outcome_.unkillable.empty()) actions.emplace_back(ReportFailure{remains_of(outcome_)});
  last_ = outcome_;
  what_follows_.clear();
  phase_ = Phase::ended;
  actions.emplace_back(ReportEnd{});
  actions.emplace_back(AwaitCause{});
  return actions;
}

AttemptCycle::Actions AttemptCycle::attempt_is_over() {
  if (phase_ != Phase::ended) return {};  // the records have arrived in time
  phase_ = Phase::waiting;
  if (leave_) what_follows_ = leave_->not_restarted;
  if (leave_) outcome_.code_of_job = code_of_job(*leave_);
  return {ShowEnd{what_follows_, /*is_last=*/leave_ && !has_other_nodes_}};
}

AttemptCycle::Actions AttemptCycle::leave_at_once(const wire::Cause& cause) {
  if (!leave_) leave_ = cause;
  in_haste_ = true;
  return phase_ == Phase::ended ? Actions{StopAwaiting{}} : Actions();
}

AttemptCycle::Actions AttemptCycle::proceed(bool is_preparing, bool is_through) {
  if (phase_ == Phase::leaving) return is_through ? Actions{Leave{}} : Actions();
  if (phase_ != Phase::waiting) return {};
  if (leave_) {
    phase_ = Phase::leaving;
    return in_haste_ || is_through ? Actions{Leave{}} : Actions();
  }
  if (!start_ || is_preparing) return {};
  place_ = *std::exchange(start_, std::nullopt);
  has_reported_ = knows_cause_ = false;
  phase_ = Phase::running;
  return {BeginAttempt{}};
}

std::optional<std::chrono::nanoseconds> AttemptCycle::wait_for_cause(bool awaits_records) const {
  const bool doubts = has_other_nodes_ && outcome_.knowledge != wire::Knowledge::certain && !knows_cause_;
  if (doubts) return limits::kNamedPeerWait + limits::kSecondaryWait;
  return awaits_records ? std::optional<std::chrono::nanoseconds>(limits::kRecordsLastWait) : std::nullopt;
}

Conclusion AttemptCycle::conclusion() const {
  return conclude({last_, what_follows_, asked_, in_haste_, !has_other_nodes_, has_run_, own_name()}, *leave_);
}

AttemptCycle::Actions AttemptCycle::learn(const wire::Cause& cause) {
  if (std::exchange(knows_cause_, true)) return {};
  Actions actions;
  if (adopt_cause(outcome_, cause, own_name())) actions.emplace_back(ShowEvent{EndedElsewhere{cause}});
  if (phase_ != Phase::ended) return actions;
  if (last_) last_ = outcome_;
  actions.emplace_back(AwaitCause{});
  return actions;
}

AttemptCycle::Actions AttemptCycle::asked_while_waiting(const Event& event, TimePoint now) {
  Actions actions{ShowEvent{event}};
  const auto leave_too = [&](const wire::Cause& cause) {
    for (CycleAction& action : leave_at_once(cause)) actions.push_back(std::move(action));
    return actions;
  };
  if (std::holds_alternative<GuardianLost>(event)) {
    asked_ = GuardianLost{};
    return leave_too(cause_of_own_fault("the launcher's first process was killed"));
  }
  const auto request = request_in(event);
  const bool was_asked = !std::holds_alternative<std::monostate>(asked_);
  // Ctrl-C also closes the other end of a pipeline.
  if (!request || (was_asked && std::holds_alternative<ConsoleClosed>(event))) return actions;
  // A user who asks again does not want to wait until the other nodes know of it.
  if (was_asked) {
    actions.emplace_back(ReportFailure{urgent_cause_of(*request)});
    return leave_too(cause_of(*request));
  }
  asked_ = *request;
  // The first request may have come while this node's workers still ran.
  const bool is_second = request_ && now - requested_at_ >= limits::kSecondRequest;
  actions.emplace_back(ReportFailure{is_second ? urgent_cause_of(*request) : cause_of(*request)});
  return actions;
}

}  // namespace ddp::launcher
