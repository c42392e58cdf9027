#include "launcher/supervise/job.h"

#include <algorithm>
#include <csignal>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/supervise/attempt.h"
#include "launcher/supervise/restart_policy.h"

namespace ddp::launcher {
namespace {

class Job {
 public:
  explicit Job(const JobParts& parts) : parts_(parts), attempts_(parts) {}

  base::Result<JobOutcome> run() {
    while (true) {
      auto outcome = attempt();
      if (!outcome) return outcome;
      RestartDecision decision = decide_restart(outcome.value(), attempts_.run_times(), parts_.plan.max_restarts);
      if (attempts_.asked() && std::holds_alternative<RestartAfter>(decision)) {
        decision = NoRestart{"not restarted: asked to end meanwhile"};
      }
      if (const auto* none = std::get_if<NoRestart>(&decision)) {
        parts_.observer.attempt_ended(outcome.value(), none->reason, /*is_last=*/true);
        return outcome;
      }
      const auto delay = std::get<RestartAfter>(decision).delay;
      parts_.observer.attempt_ended(outcome.value(),
                                    "restart " + std::to_string(attempts_.run_times().size()) + " of " +
                                        std::to_string(parts_.plan.max_restarts) + " in " + base::human_duration(delay),
                                    /*is_last=*/false);
      last_failure_ = describe_failure(outcome.value());
      if (const auto ended = wait(delay)) {
        parts_.observer.ended_between_attempts(*ended);
        return *ended;
      }
    }
  }

 private:
  // With a store of its own.
  base::Result<JobOutcome> attempt() {
    const auto number = static_cast<int>(attempts_.run_times().size());
    attempts_.prepare(number);
    const auto rendezvous = Rendezvous::open(
        parts_.loop, parts_.plan, [this](const std::string& text) { attempts_.warn(text); },
        [this] { return attempts_.worker_sockets(); });
    if (!rendezvous) return rendezvous.error();
    if (const auto warning = rendezvous.value()->warning(); warning && number == 0 && !parts_.plan.store.open) {
      parts_.observer.warn(*warning);
    }
    NodeAssignment assignment = rendezvous.value()->assignment();
    assignment.attempt = number;
    return attempts_.run(assignment, last_failure_, nullptr);
  }

  static bool is_signal(const Event& event, int number) {
    const auto* signal = std::get_if<SignalArrived>(&event);
    return signal != nullptr && signal->signal == number;
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
      if (!attempts_.is_request(event) && !std::holds_alternative<GuardianLost>(event)) return;
      ended = JobOutcome{};
      if (attempts_.is_request(event)) {
        ended->cause = std::get<SignalArrived>(event);
        ended->status = base::ExitStatus::killed(std::get<SignalArrived>(event).signal);
      } else {
        ended->cause = GuardianLost{};
        ended->status = base::ExitStatus::exited(base::kExitOwnFault);
      }
      parts_.loop.stop();
    };
    go_on();
    parts_.loop.run();
    parts_.inbox = nullptr;
    return ended;
  }

  const JobParts& parts_;
  Attempts attempts_;
  std::string last_failure_;
};

}  // namespace

base::Result<JobOutcome> run_job(const JobParts& parts) {
  return Job(parts).run();
}

}  // namespace ddp::launcher
