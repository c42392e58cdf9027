// Defines the events of a job and the actions that follow from them. They are values between the driver and the pure
// state machine.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "base/signals.h"
#include "launcher/run/job/error_record.h"
#include "launcher/run/process/launcher_signals.h"
#include "launcher/run/process/memory_events.h"
#include "launcher/run/ranks/verdict.h"
#include "launcher/run/watchdog/hang_news.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/start_failure.h"
#include "wire/control_message.h"

namespace ddp::launcher {

using TimePoint = std::chrono::steady_clock::time_point;

struct WorkerStarted {
  int local_rank;
  pid_t pid;
};

struct SpawnFailed {
  int local_rank;
  StartFailure failure;
};

// Describes how one worker ended. It stays in the outcome of the job.
struct WorkerEnd {
  int local_rank = 0;
  base::ExitStatus status = base::ExitStatus::exited(0);
  std::optional<ErrorRecord> error = {};
  std::uint64_t peak_rss_bytes = 0;
  std::optional<OomKill> oom = {};  // the kernel killed a process for lack of memory
  // The verdict concerns the worker's calls, or the calls of all ranks. It is set if the worker exited with 0 without
  // finishing a collective, or if it waited in one for a lost rank. It is also set if the worker gave up waiting, or if
  // ranks differ.
  std::optional<Verdict> verdict = {};
  // A rank that still runs wrote its error record before this one. This applies only to a failure with an error record.
  bool another_failed_before = false;
  bool is_injected = false;      // --inject killed it
  std::string gpu_uuid = {};     // UUID of the GPU that it used, as its page shows it; empty if unknown
  std::string crash_place = {};  // place in a Python program that got a fatal signal; empty if unknown

  // JobState adds what it knows of the worker.
  int rank = 0;
  pid_t pid = 0;
  TimePoint when = {};
  bool after_signal = false;  // the launcher had asked it to end
  bool after_kill = false;    // the launcher had sent SIGKILL

  // Returns whether the end follows from the launcher's SIGINT, SIGTERM or SIGKILL.
  bool is_our_doing() const;
  // Returns whether the worker exited with 0 before it was asked to end.
  bool has_left() const { return status.success() && !after_signal; }
  // Returns whether the worker failed because it lost another rank.
  bool is_secondary() const { return error && error->is_secondary; }
  // Returns whether the worker failed because ranks called different operations.
  bool found_mismatch() const { return error && error->is_mismatch; }
  // Returns whether the worker's own time-out passed while it waited for another rank.
  bool gave_up() const { return error && error->is_timeout; }
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

// Reports outcome() to the coordinator. The coordinator ends the attempt, at once or when other nodes do not know more
// about the cause.
struct ReportCause {};
// Asks the programs of this node to save and to leave.
struct AskToSave {};
// Asks the workers to keep the state of the last finished step. StatesKept follows.
struct AskForStates {};
// Reports what the ranks of this node do, with their stacks, as if the user had asked for it.
struct ReportState {};
// Reports that a user has asked a second time, so that the other nodes stop waiting too.
struct ReportUrgency {};

using Action = std::variant<SendSignal, LogLine, ReportState, AskToSave, AskForStates, ReportCause, ReportUrgency>;

}  // namespace ddp::launcher
