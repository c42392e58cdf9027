#include "launcher/supervise/timed_faults.h"

#include <csignal>
#include <utility>

#include "base/text.h"

namespace ddp::launcher {

void TimedFaults::begin() {
  for (const wire::Fault& fault : plan_.timed_faults) {
    const int local_rank = fault.rank - placement_.first_rank;
    if (fault.attempt != placement_.attempt || local_rank < 0 || local_rank >= plan_.workers) continue;
    const bool kills = fault.kind == wire::FaultKind::kill;
    later(*fault.after,
          [this, fault, kills] { send(fault.rank, kills ? SIGKILL : SIGSTOP, kills ? "kills" : "stops"); });
    if (fault.kind != wire::FaultKind::delay) continue;
    later(*fault.after + fault.delay, [this, fault] { send(fault.rank, SIGCONT, "continues"); });
  }
}

void TimedFaults::later(std::chrono::milliseconds time, std::function<void()> deed) {
  watches_.push_back(loop_.at(std::chrono::steady_clock::now() + time, std::move(deed)));
}

void TimedFaults::send(int rank, int signal, const std::string& what) {
  tell_("--inject " + what + " rank " + std::to_string(rank));
  processes_.signal(rank - placement_.first_rank, signal, SignalTarget::group);
}

}  // namespace ddp::launcher
