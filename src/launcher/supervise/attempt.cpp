#include "launcher/supervise/attempt.h"

#include <algorithm>
#include <csignal>
#include <cstdint>

#include "base/text.h"
#include "launcher/process/process_sockets.h"
#include "launcher/supervise/supervisor.h"
#include "store/limits.h"

namespace ddp::launcher {

void Attempts::prepare(int number) {
  placement_.attempt = number;
  workers_.clear();
  warnings_ = 0;
  is_ending_ = false;
}

std::vector<store::RankedSocket> Attempts::worker_sockets() const {
  const auto until = std::chrono::steady_clock::now() + limits::kStoreNamingTime;
  std::vector<store::RankedSocket> sockets;
  for (const auto& [local_rank, pid] : workers_) {
    const int rank = placement_.first_rank + local_rank;
    for (const HeldSocket& socket : sockets_of(pid, until)) {
      sockets.push_back(
          {socket.inode, {rank, placement_.world_size, parts_.plan.host_name + ":" + std::to_string(socket.holder)}});
    }
  }
  return sockets;
}

void Attempts::warn(const std::string& text) {
  if (is_ending_) return;
  if (++warnings_ <= limits::kStoreWarnings) parts_.observer.warn(text);
  if (warnings_ == limits::kStoreWarnings) parts_.observer.warn("more of these are not shown");
}

void Attempts::observe(const Event& event) {
  if (const auto* start = std::get_if<WorkerStarted>(&event)) workers_[start->local_rank] = start->pid;
  if (const auto* end = std::get_if<WorkerEnded>(&event)) {
    workers_.erase(end->local_rank);
    is_ending_ = is_ending_ || !end->status.success();
  }
  if (is_request(event)) request_ = std::get<SignalArrived>(event);
  is_ending_ = is_ending_ || is_request(event) || std::holds_alternative<EndedElsewhere>(event);
  on_event_(event);
}

base::Result<JobOutcome> Attempts::run(const Placement& placement, const std::string& last_failure,
                                       const std::function<void(const JobOutcome& so_far)>& report) {
  placement_ = placement;
  if (auto failure = parts_.directory.begin_attempt(placement.attempt, parts_.plan.workers)) return *failure;
  parts_.observer.attempt_begins(placement);
  const auto start = std::chrono::steady_clock::now();
  JobOutcome outcome = supervise({parts_.loop, parts_.processes, parts_.plan, placement, parts_.directory,
                                  parts_.output, last_failure, parts_.observer.tell,
                                  [this](const Event& event) { observe(event); }, report, exchange_, parts_.inbox});
  run_times_.push_back(std::chrono::steady_clock::now() - start);
  // What holds the ends of the pipes is gone then.
  outcome.leftovers = parts_.processes.end_leftovers();
  drain_output();
  return outcome;
}

// A console that takes nothing holds the end of the job for a bounded time, and not at all once somebody asks.
void Attempts::drain_output() {
  bool is_asked = request_.has_value();
  parts_.inbox = [&](const Event& event) {
    if (is_request(event)) request_ = std::get<SignalArrived>(event);
    if (std::holds_alternative<ConsoleClosed>(event)) request_ = SignalArrived{SIGPIPE};
    if (std::holds_alternative<GuardianLost>(event)) request_ = SignalArrived{SIGTERM};  // none looks after us any more
    is_asked = request_.has_value();
  };
  parts_.output.interrupted = [&] {
    parts_.loop.poll();
    return is_asked;
  };
  parts_.output.drain();
  parts_.output.interrupted = nullptr;
  parts_.inbox = nullptr;
  if (const std::int64_t lines = parts_.output.lost_lines().untold; lines > 0) {
    parts_.observer.tell(base::counted(lines, "line") + (lines == 1 ? " was" : " were") +
                         " not shown: the console did not take them (--log-dir keeps them, --lossless waits)");
  }
}

bool Attempts::is_request(const Event& event) const {
  return is_ending_signal(event, parts_.plan.ending_signals);
}

}  // namespace ddp::launcher
