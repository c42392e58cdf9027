#include "launcher/run/job/outcome.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/exit_code.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/run/job/cause_code.h"
#include "launcher/run/watchdog/verdict_text.h"

namespace ddp::launcher {
namespace {

std::string text_of(const SignalArrived& request) {
  return request.reason.empty() ? "terminated by " + base::signal_name(request.signal) : request.reason;
}

struct CauseText {
  const JobOutcome& outcome;

  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const WorkerFailed& failed) const {
    const WorkerEnd& end = failed.end;
    const std::string rank = "rank " + std::to_string(end.rank) + ": ";
    if (end.is_our_doing()) return rank + "failed with an error";
    return rank + end.status.describe() + (end.status.success() ? " before its collectives were done" : "");
  }
  std::string operator()(const SpawnFailed& failed) const { return failed.failure.message; }
  std::string operator()(const SignalArrived& request) const { return text_of(request); }
  std::string operator()(const GuardianLost&) const { return "the launcher's first process was killed"; }
  std::string operator()(const ExitTimedOut&) const { return base::ranks_text(outcome.ended_ranks) + " did not exit"; }
  std::string operator()(const HangNews& hang) const { return "the job hung: " + hang_headline(hang.verdict); }
  std::string operator()(const EndedElsewhere& elsewhere) const { return describe(elsewhere.cause); }
};

}  // namespace

std::string full_text(const wire::Cause& cause) {
  return cause.text + (cause.not_restarted.empty() ? "" : "; " + cause.not_restarted);
}

std::string describe(const wire::Cause& cause) {
  return (cause.node.empty() ? "" : "node " + cause.node + ": ") + full_text(cause);
}

std::string describe_failure(const JobOutcome& outcome) {
  return std::visit(CauseText{outcome}, outcome.cause);
}

bool is_worth_another(const JobOutcome& outcome) {
  return outcome.culprit() != nullptr || outcome.cause_as<ExitTimedOut>() != nullptr ||
         outcome.cause_as<HangNews>() != nullptr;
}

std::string node_of_culprit(const HangNews& hang) {
  const auto found =
      std::ranges::find_if(hang.ranks, [&](const RankView& rank) { return hang.verdict.blames(rank.rank); });
  return found == hang.ranks.end() ? "" : found->node;
}

wire::Cause cause_of(const JobOutcome& outcome) {
  wire::Cause cause;
  if (const auto* hang = outcome.cause_as<HangNews>()) cause.node = node_of_culprit(*hang);
  cause.text = describe_failure(outcome);
  cause.exit_code = outcome.status.shell_code();
  cause.signal = outcome.status.signal();
  cause.knowledge = outcome.knowledge;
  const auto* request = outcome.cause_as<SignalArrived>();
  cause.may_restart = is_worth_another(outcome) || (request != nullptr && !request->ends_job);
  const WorkerEnd* culprit = outcome.culprit();
  if (culprit != nullptr && culprit->is_secondary()) cause.lost_peer = culprit->error->peer.value_or(wire::kNoPeer);
  cause.gave_up = culprit != nullptr && culprit->gave_up();
  cause.code = code_of(outcome);
  cause.error = repeatable_error(outcome);
  return cause;
}

wire::Cause cause_of(const SignalArrived& event) {
  return {.text = text_of(event),
          .exit_code = 128 + event.signal,
          .signal = event.signal,
          .may_restart = !event.ends_job,
          .code = code_of(event)};
}

wire::Cause urgent_cause_of(const SignalArrived& event) {
  wire::Cause cause = cause_of(event);
  cause.is_urgent = true;
  cause.may_restart = false;
  return cause;
}

wire::Cause cause_of(const HangNews& difference) {
  return {.text = hang_headline(difference.verdict),
          .node = node_of_culprit(difference),
          .exit_code = base::kExitHung,
          .may_restart = true,
          .code = wire::CauseCode::hang};
}

wire::Cause cause_of_own_fault(const std::string& text) {
  return {.text = text, .exit_code = base::kExitOwnFault, .code = wire::CauseCode::launcher};
}

wire::Cause remains_of(const JobOutcome& outcome) {
  std::vector<int> ranks;
  for (const RankAndPid& worker : outcome.unkillable) ranks.push_back(worker.rank);
  return {.text = base::ranks_text(ranks) + " cannot be killed",
          .exit_code = outcome.status.shell_code(),
          .code = wire::CauseCode::hardware};
}

bool adopt_cause(JobOutcome& outcome, const wire::Cause& cause, const std::string& own_name) {
  const WorkerEnd* culprit = outcome.culprit();
  if (culprit == nullptr || cause.node == own_name || cause.knowledge <= outcome.knowledge) return false;
  outcome.also_failed.insert(outcome.also_failed.begin(), *culprit);
  outcome.status = base::ExitStatus::exited(cause.exit_code);
  outcome.knowledge = cause.knowledge;
  outcome.cause = EndedElsewhere{cause};
  return true;
}

wire::CauseCode code_of_job(const wire::Cause& cause) {
  const bool has_saved = cause.code == wire::CauseCode::preempted && cause.exit_code == base::kExitSaved;
  return has_saved || cause.code == wire::CauseCode::repeated_error ? cause.code : wire::CauseCode::none;
}

namespace {

// A row of a table of which the first one that holds decides.
template <typename Result>
struct Row {
  bool holds;
  Result result;
};

template <typename Result>
Result first_that_holds(std::initializer_list<Row<Result>> rows) {
  return std::ranges::find_if(rows, &Row<Result>::holds)->result;
}

}  // namespace

Conclusion conclude(LastFacts facts, const wire::Cause& cause) {
  using base::ExitStatus;
  Conclusion end;
  JobOutcome& outcome = end.outcome;
  const bool is_between = !facts.last;
  if (facts.last) outcome = std::move(*facts.last);
  outcome.code_of_job = code_of_job(cause);
  // The job had failed after it was asked to save.
  if (cause.exit_code == base::kExitSaved) outcome.status = ExitStatus::exited(base::kExitSaved);
  if (!is_between && facts.is_alone) return end;

  const std::string reported = describe_failure(outcome);
  const bool is_own = cause.node == facts.own_name;
  const bool has_succeeded = cause.exit_code == 0;
  const bool has_saved = has_succeeded && (outcome.has_saved || cause.has_saved);
  const bool ended_by_request = cause.signal != 0 && outcome.status.was_killed_by(cause.signal);
  const bool ends_by_request = reported.empty() && cause.signal != 0 && (is_own || cause.node.empty());
  outcome.status = first_that_holds<ExitStatus>({
      // All nodes exit alike, so that a scheduler starts all of them again.
      {has_saved, ExitStatus::exited(base::kExitSaved)},
      {ended_by_request || ends_by_request, ExitStatus::killed(cause.signal)},
      {true, ExitStatus::exited(cause.exit_code)},
  });
  if (has_saved && !std::exchange(outcome.has_saved, true)) {
    end.level = LogLevel::note;
    end.line = "the program has saved and left, as another node was asked to: exit code 75 asks to start the job again";
  }
  if (has_succeeded) return end;

  const bool is_asked_for = facts.in_haste || outcome.status.was_killed();
  const bool was_asked_here = is_between && is_asked_for && !std::holds_alternative<std::monostate>(facts.asked);
  const bool was_asked_before = !ended_by_request && outcome.cause_as<SignalArrived>() != nullptr;
  outcome.cause = first_that_holds<RootCause>({
      {was_asked_here, facts.asked},
      {reported.empty() || was_asked_before, EndedElsewhere{cause}},
      {true, outcome.cause},
  });
  end.was_ended_between_attempts = was_asked_here && facts.has_run;
  if (end.was_ended_between_attempts) return end;
  if (cause.signal != 0) end.level = LogLevel::warning;
  const bool is_new = !cause.not_restarted.empty() && cause.not_restarted != facts.what_followed;
  const bool is_news = !is_own && reported != describe(cause);
  end.is_from_another_node = is_news && !facts.in_haste;
  if (reported.empty() || is_new || is_news) end.line = describe(cause);
  return end;
}

}  // namespace ddp::launcher
