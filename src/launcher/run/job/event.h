// Defines the events of a job and the actions that follow from them. They are values between the driver and the pure
// state machine.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/signals.h"
#include "launcher/run/job/worker_end.h"
#include "launcher/run/process/signal_target.h"
#include "launcher/run/watchdog/hang_news.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/start_failure.h"
#include "wire/control_message.h"

namespace ddp::launcher {

struct WorkerStarted {
  int local_rank;
  pid_t pid;
};

struct SpawnFailed {
  int local_rank;
  StartFailure failure;
};

// The launcher received a signal. SIGTSTP asks it to stop, and SIGCONT to continue.
struct SignalArrived {
  int signal;
  std::string reason = {};  // empty if the signal is the reason
  bool ends_job = false;    // the job ends, even if it could go on without this node
};

// The guardian has ended. No other process would clean up after the supervisor.
struct GuardianLost {};

// The launcher's output has no reader anymore, and the user wants the job to end in that case.
struct ConsoleClosed {};

// The kernel does not let the launcher signal this worker, because the worker now runs as another user.
struct SignalRefused {
  int local_rank;
};

// The alarm that the state requested has expired.
struct AlarmRang {};

// The job's coordinator ends the attempt, because another node reported a cause or is lost.
struct EndedElsewhere {
  wire::Cause cause;
};

// The coordinator ends the attempt for a failure of this node, because no other rank has reported more about it in
// time.
struct Settled {};

// Ranks have exited with 0, and the others have not followed within --exit-timeout.
struct ExitTimedOut {};

// The workers have kept their state, as far as they can. `whole` are the whole states of this attempt.
struct StatesKept {
  std::vector<wire::KeptState> whole;
};

using Event = std::variant<WorkerStarted, SpawnFailed, WorkerEnd, SignalArrived, AlarmRang, GuardianLost, ConsoleClosed,
                           HangNews, EndedElsewhere, Settled, ExitTimedOut, SignalRefused, StatesKept>;

// Returns the request to end the job, if the event is one. The loss of the guardian is one too, because no process
// would clean up after the launcher.
inline std::optional<SignalArrived> request_in(const Event& event, std::span<const int> ending_signals) {
  const auto* arrived = std::get_if<SignalArrived>(&event);
  if (arrived != nullptr && base::contains(ending_signals, arrived->signal)) return *arrived;
  if (std::holds_alternative<ConsoleClosed>(event)) return SignalArrived{.signal = SIGPIPE, .ends_job = true};
  if (std::holds_alternative<GuardianLost>(event)) return SignalArrived{.signal = SIGTERM, .ends_job = true};
  return std::nullopt;
}

struct SendSignal {
  int local_rank;
  int signal;
  SignalTarget target;

  friend bool operator==(const SendSignal&, const SendSignal&) = default;
};

// Logs a line while the job is still running.
struct Tell {
  LogLine line;

  friend bool operator==(const Tell&, const Tell&) = default;
};

// Reports outcome() to the coordinator. The coordinator ends the attempt, at once or when other nodes do not know more
// about the cause.
struct ReportCause {
  friend bool operator==(const ReportCause&, const ReportCause&) = default;
};

// Asks the programs of this node to save and to leave.
struct AskToSave {
  friend bool operator==(const AskToSave&, const AskToSave&) = default;
};

// Asks the workers to keep the state of the last finished step. StatesKept follows.
struct AskForStates {
  friend bool operator==(const AskForStates&, const AskForStates&) = default;
};

// Reports what the ranks of this node do, with their stacks, as if the user had asked for it.
struct ReportState {
  friend bool operator==(const ReportState&, const ReportState&) = default;
};

// Reports that a user has asked a second time, so that the other nodes stop waiting too.
struct ReportUrgency {
  friend bool operator==(const ReportUrgency&, const ReportUrgency&) = default;
};

// The attempt is over on this node; outcome() describes how it ended.
struct Finish {
  friend bool operator==(const Finish&, const Finish&) = default;
};

using Action = std::variant<SendSignal, Tell, ReportState, AskToSave, AskForStates, ReportCause, ReportUrgency, Finish>;

}  // namespace ddp::launcher
