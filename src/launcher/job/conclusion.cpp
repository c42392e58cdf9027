#include "launcher/job/conclusion.h"

#include <utility>

namespace ddp::launcher {

Conclusion conclude(LastFacts facts, const wire::Cause& cause) {
  Conclusion end;
  const bool is_between = !facts.last;
  if (facts.last) end.outcome = std::move(*facts.last);
  if (!is_between && facts.is_alone) return end;
  JobOutcome& outcome = end.outcome;
  const std::string told = describe_failure(outcome);
  const bool is_own = cause.node == facts.own_name;
  const bool was_asked = cause.signal != 0 && outcome.status.was_killed_by(cause.signal);
  const bool is_asked = told.empty() && cause.signal != 0 && (is_own || cause.node.empty());
  outcome.status =
      was_asked || is_asked ? base::ExitStatus::killed(cause.signal) : base::ExitStatus::exited(cause.exit_code);
  if (cause.exit_code == 0) return end;
  const bool is_asked_for = facts.in_haste || outcome.status.was_killed();
  const bool was_asked_here = is_between && is_asked_for && !std::holds_alternative<std::monostate>(facts.asked);
  if (was_asked_here) {
    outcome.cause = facts.asked;
  } else if (told.empty() || (!was_asked && outcome.cause_as<SignalArrived>() != nullptr)) {
    outcome.cause = EndedElsewhere{cause};
  }
  end.was_ended_between_attempts = was_asked_here && facts.has_run;
  if (end.was_ended_between_attempts) return end;
  const bool is_new = !cause.not_restarted.empty() && cause.not_restarted != facts.what_followed;
  if (told.empty() || is_new || (!is_own && told != describe(cause))) end.line = describe(cause);
  return end;
}

}  // namespace ddp::launcher
