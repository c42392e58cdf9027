#include "launcher/supervise/outcome.h"

#include "base/signals.h"
#include "base/text.h"
#include "launcher/supervise/verdict_text.h"

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
  std::string operator()(const ExitTimedOut&) const {
    return "rank " + base::rank_list(outcome.ended_ranks) + " did not end";
  }
  std::string operator()(const HangNews& hang) const { return "hung: " + hang_headline(hang.verdict); }
  std::string operator()(const EndedElsewhere& elsewhere) const { return describe(elsewhere.cause); }
};

}  // namespace

std::string full_text(const wire::Cause& cause) {
  return cause.text + (cause.not_restarted.empty() ? "" : "; not restarted: " + cause.not_restarted);
}

std::string describe(const wire::Cause& cause) {
  return (cause.node.empty() ? "" : "node " + cause.node + ": ") + full_text(cause);
}

std::string describe_failure(const JobOutcome& outcome) {
  return std::visit(CauseText{outcome}, outcome.cause);
}

}  // namespace ddp::launcher
