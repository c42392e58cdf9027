#include "launcher/supervise/job.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <map>

#include "base/exit_code.h"
#include "base/limits.h"
#include "base/text.h"
#include "launcher/process/process_sockets.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/supervisor.h"

namespace ddp::launcher {
namespace {

std::vector<store::RankedSocket> sockets_of_ranks(const std::map<int, pid_t>& workers, const NodeAssignment& assignment,
                                                  const std::string& node) {
  const auto until = std::chrono::steady_clock::now() + limits::kStoreNamingTime;
  std::vector<store::RankedSocket> sockets;
  for (const auto& [local_rank, pid] : workers) {
    const int rank = assignment.first_rank + local_rank;
    for (const HeldSocket& socket : sockets_of(pid, until)) {
      sockets.push_back({socket.inode, {rank, assignment.world_size, node + ":" + std::to_string(socket.holder)}});
    }
  }
  return sockets;
}

class Job {
 public:
  explicit Job(const JobParts& parts) : parts_(parts) {}

  base::Result<JobOutcome> run() {
    while (true) {
      auto outcome = attempt();
      if (!outcome) return outcome;
      RestartDecision decision = decide_restart(outcome.value(), run_times_, parts_.plan.max_restarts);
      if (asked_ && std::holds_alternative<RestartAfter>(decision)) {
        decision = NoRestart{"not restarted: asked to end meanwhile"};
      }
      if (const auto* none = std::get_if<NoRestart>(&decision)) {
        parts_.observer.attempt_ended(outcome.value(), none->reason);
        return outcome;
      }
      const auto delay = std::get<RestartAfter>(decision).delay;
      parts_.observer.attempt_ended(outcome.value(), "restart " + std::to_string(run_times_.size()) + " of " +
                                                         std::to_string(parts_.plan.max_restarts) + " in " +
                                                         base::human_duration(delay));
      last_failure_ = describe_failure(outcome.value());
      if (const auto ended = wait(delay)) {
        parts_.observer.ended_between_attempts(*ended);
        return *ended;
      }
    }
  }

 private:
  base::Result<JobOutcome> attempt() {
    const auto number = static_cast<int>(run_times_.size());
    int warnings = 0;
    bool is_ending = false;  // then clients leave the store in the middle of anything
    std::map<int, pid_t> workers;
    const auto observe = [&](const Event& event) {
      if (const auto* start = std::get_if<WorkerStarted>(&event)) workers[start->local_rank] = start->pid;
      if (const auto* end = std::get_if<WorkerEnded>(&event)) {
        workers.erase(end->local_rank);
        is_ending = is_ending || !end->status.success();
      }
      is_ending = is_ending || is_request(event);
      parts_.observer.event(event);
    };
    const auto warn = [&](const std::string& text) {
      if (is_ending) return;
      if (++warnings <= limits::kStoreWarnings) parts_.observer.warn(text);
      if (warnings == limits::kStoreWarnings) parts_.observer.warn("more of these are not shown");
    };
    NodeAssignment assignment;
    const auto sockets = [&] { return sockets_of_ranks(workers, assignment, parts_.plan.host_name); };
    const auto rendezvous = Rendezvous::open(parts_.loop, parts_.plan, warn, sockets);
    if (!rendezvous) return rendezvous.error();
    if (const auto warning = rendezvous.value()->warning(); warning && number == 0 && !parts_.plan.store.open) {
      parts_.observer.warn(*warning);
    }
    if (auto failure = parts_.directory.begin_attempt(number, parts_.plan.workers)) return *failure;
    assignment = rendezvous.value()->assignment();
    assignment.attempt = number;
    parts_.observer.attempt_begins(assignment);
    const auto start = std::chrono::steady_clock::now();
    JobOutcome outcome = supervise({parts_.loop, parts_.processes, parts_.plan, assignment, parts_.directory,
                                    parts_.output, last_failure_, parts_.observer.tell, observe, parts_.inbox});
    run_times_.push_back(std::chrono::steady_clock::now() - start);
    // What holds the ends of the pipes is gone then.
    outcome.leftovers = parts_.processes.end_leftovers();
    drain_output();
    return outcome;
  }

  // A console that takes nothing holds the end of the job for a bounded time, and not at all once somebody asks.
  void drain_output() {
    parts_.inbox = [&](const Event& event) {
      asked_ = asked_ || is_request(event) || std::holds_alternative<GuardianLost>(event) ||
               std::holds_alternative<ConsoleClosed>(event);
    };
    parts_.output.interrupted = [&] {
      parts_.loop.poll();
      return asked_;
    };
    parts_.output.drain();
    parts_.output.interrupted = nullptr;
    parts_.inbox = nullptr;
    if (const std::int64_t lines = parts_.output.lost_lines().untold; lines > 0) {
      parts_.observer.tell(base::counted(lines, "line") + (lines == 1 ? " was" : " were") +
                           " not shown: the console did not take them (--log-dir keeps them, --lossless waits)");
    }
  }

  static bool is_signal(const Event& event, int number) {
    const auto* signal = std::get_if<SignalArrived>(&event);
    return signal != nullptr && signal->signal == number;
  }

  bool is_request(const Event& event) const {
    const auto* signal = std::get_if<SignalArrived>(&event);
    const auto& ending = parts_.plan.ending_signals;
    return signal != nullptr && std::find(ending.begin(), ending.end(), signal->signal) != ending.end();
  }

  // The delay before a restart; an outcome if somebody ends the job meanwhile.
  std::optional<JobOutcome> wait(std::chrono::milliseconds delay) {
    using Clock = std::chrono::steady_clock;
    std::optional<JobOutcome> ended;
    Clock::duration left = delay;
    Clock::time_point until;
    std::unique_ptr<net::Watch> timer;
    const auto go_on = [&] {
      until = Clock::now() + left;
      timer = parts_.loop.at(until, [this] { parts_.loop.stop(); });
    };
    parts_.inbox = [&](const Event& event) {
      parts_.observer.event(event);
      // Ctrl-Z stops this clock like all others.
      if (is_signal(event, SIGTSTP) && timer) {
        timer.reset();
        left = until - Clock::now();
      }
      if (is_signal(event, SIGCONT) && !timer) go_on();
      if (!is_request(event) && !std::holds_alternative<GuardianLost>(event)) return;
      ended = JobOutcome{};
      if (is_request(event)) {
        ended->signal = std::get<SignalArrived>(event).signal;
        ended->exit_code = 128 + *ended->signal;
      } else {
        ended->guardian_lost = true;
        ended->exit_code = base::kExitOwnFault;
      }
      parts_.loop.stop();
    };
    go_on();
    parts_.loop.run();
    parts_.inbox = nullptr;
    return ended;
  }

  const JobParts& parts_;
  std::vector<std::chrono::nanoseconds> run_times_;  // of each attempt
  std::string last_failure_;
  bool asked_ = false;  // to end, between an attempt's last process and its report: no other attempt follows
};

}  // namespace

base::Result<JobOutcome> run_job(const JobParts& parts) {
  return Job(parts).run();
}

}  // namespace ddp::launcher
