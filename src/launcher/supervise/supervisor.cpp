#include "launcher/supervise/supervisor.h"

namespace ddp::launcher {
namespace {

class Supervisor {
 public:
  explicit Supervisor(const SupervisorParts& parts)
      : parts_(parts),
        state_({parts.plan.workers, parts.assignment.first_rank, parts.plan.grace}, std::chrono::steady_clock::now()) {}

  JobOutcome run() {
    parts_.on_signal = [this](int signal) { step(SignalArrived{signal}); };
    parts_.processes.on_exit([this](int local_rank, base::ExitStatus status) {
      step(WorkerEnded{local_rank, status, read_error(local_rank, status)});
    });
    for (int i = 0; i < parts_.plan.workers && !state_.ending(); ++i) {
      start(i);
      // A worker may fail, or ask the store, while the others are still being started.
      parts_.loop.poll();
    }
    if (!state_.finished()) parts_.loop.run();
    parts_.on_signal = nullptr;
    return state_.outcome();
  }

 private:
  void start(int local_rank) {
    const WorkerSpec spec =
        make_worker_spec(parts_.plan, parts_.assignment, {local_rank, parts_.directory.error_file(local_rank)});
    const auto pid = parts_.processes.spawn(local_rank, spec);
    if (pid) return step(WorkerStarted{local_rank, pid.value()});
    step(SpawnFailed{local_rank, pid.error()});
  }

  std::optional<ErrorRecord> read_error(int local_rank, base::ExitStatus status) const {
    if (status.success()) return std::nullopt;
    return read_error_record(parts_.directory.error_file(local_rank));
  }

  void step(const Event& event) {
    for (const Action& action : state_.step(event, std::chrono::steady_clock::now())) {
      std::visit([this](const auto& specific) { carry_out(specific); }, action);
    }
    alarm_.reset();
    if (const auto when = state_.alarm()) alarm_ = parts_.loop.at(*when, [this] { step(AlarmRang{}); });
  }

  void carry_out(const SendSignal& action) { parts_.processes.signal(action.local_rank, action.signal, action.target); }
  void carry_out(const Tell& action) { parts_.tell(action.line); }
  void carry_out(const Finish&) { parts_.loop.stop(); }

  const SupervisorParts& parts_;
  JobState state_;
  std::unique_ptr<net::Watch> alarm_;
};

}  // namespace

JobOutcome supervise(const SupervisorParts& parts) {
  return Supervisor(parts).run();
}

}  // namespace ddp::launcher
