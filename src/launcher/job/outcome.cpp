#include "launcher/job/outcome.h"

#include <algorithm>

#include "base/exit_code.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/watchdog/verdict_text.h"

namespace ddp::launcher {
namespace {

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
  std::string operator()(const SignalArrived& request) const {
    return request.reason.empty() ? "ended by " + base::signal_name(request.signal) : request.reason;
  }
  std::string operator()(const GuardianLost&) const { return "the launcher's first process was killed"; }
  std::string operator()(const ExitTimedOut&) const { return ranks_text(outcome.ended_ranks) + " did not end"; }
  std::string operator()(const HangNews& hang) const { return "hung: " + hang_headline(hang.verdict); }
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
  const auto found = std::find_if(hang.ranks.begin(), hang.ranks.end(),
                                  [&](const RankView& rank) { return hang.verdict.blames(rank.rank); });
  return found == hang.ranks.end() ? "" : found->node;
}

wire::Cause cause_of(const JobOutcome& outcome) {
  wire::Cause cause;
  if (const auto* hang = outcome.cause_as<HangNews>()) cause.node = node_of_culprit(*hang);
  cause.text = describe_failure(outcome);
  cause.exit_code = outcome.status.shell_code();
  cause.signal = outcome.status.signal();
  cause.knowledge = outcome.knowledge;
  cause.may_restart = is_worth_another(outcome);
  const WorkerEnd* culprit = outcome.culprit();
  if (culprit != nullptr && culprit->is_secondary()) cause.lost_peer = culprit->error->peer.value_or(wire::kNoPeer);
  cause.gave_up = culprit != nullptr && culprit->gave_up();
  return cause;
}

wire::Cause cause_of(const SignalArrived& event) {
  return {.text = event.reason.empty() ? "ended by " + base::signal_name(event.signal) : event.reason,
          .exit_code = 128 + event.signal,
          .signal = event.signal};
}

wire::Cause cause_of(const HangNews& difference) {
  return {.text = hang_headline(difference.verdict),
          .node = node_of_culprit(difference),
          .exit_code = base::kExitHung,
          .may_restart = true};
}

wire::Cause remains_of(const JobOutcome& outcome) {
  std::vector<int> ranks;
  for (const RankAndPid& worker : outcome.unkillable) ranks.push_back(worker.rank);
  return {.text = ranks_text(ranks) + " cannot be killed", .exit_code = outcome.status.shell_code()};
}

}  // namespace ddp::launcher
