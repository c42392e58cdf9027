#include "launcher/run/job/timed_faults.h"

#include <algorithm>
#include <csignal>

#include "base/text.h"

namespace ddp::launcher {

bool has_injected_kill(const LaunchPlan& plan, int attempt, int rank) {
  const auto kills = [&](const wire::Fault& fault) {
    return fault.kind == wire::FaultKind::kill && fault.rank == rank && fault.attempt == attempt;
  };
  const auto at_call = wire::parse_faults(base::join(plan.faults, " "));
  return std::ranges::any_of(plan.timed_faults, kills) || (at_call && std::ranges::any_of(at_call.value(), kills));
}

TimedFaults::TimedFaults(net::Timers& timers, WorkerGroup& workers, const LaunchPlan& plan, const Placement& placement,
                         const LogWriter& log)
    : timers_(timers), workers_(workers), first_rank_(placement.first_rank), log_(log) {
  for (const wire::Fault& fault : plan.timed_faults) {
    const int local_rank = fault.rank - first_rank_;
    if (fault.attempt != placement.attempt || local_rank < 0 || local_rank >= plan.workers) continue;
    const bool kills = fault.kind == wire::FaultKind::kill;
    ++pending_;
    later(*fault.after, [this, fault, kills] {
      --pending_;
      send(fault.rank, kills ? SIGKILL : SIGSTOP, kills ? "kills" : "stops");
    });
    if (fault.kind != wire::FaultKind::delay) continue;
    later(*fault.after + fault.delay, [this, fault] { send(fault.rank, SIGCONT, "continues"); });
  }
}

void TimedFaults::send(int rank, int signal, const std::string& what) {
  log_({LogLevel::warning, LogSource::job, "ddplaunch " + what + " rank " + std::to_string(rank) + " (--inject)"});
  workers_.signal(rank - first_rank_, signal, SignalTarget::group);
}

}  // namespace ddp::launcher
