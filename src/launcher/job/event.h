// What happens to a job, and what is to be done about it: values between the driver and the pure state machine.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/exit_status.h"
#include "base/signals.h"
#include "launcher/job/error_record.h"
#include "launcher/log/log_line.h"
#include "launcher/process/memory_events.h"
#include "launcher/process/process_host.h"
#include "launcher/watchdog/hang_detector.h"
#include "launcher/watchdog/verdict.h"
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

struct WorkerEnded {
  int local_rank;
  base::ExitStatus status;
  std::optional<ErrorRecord> error;
  std::uint64_t peak_rss_bytes = 0;
  std::optional<OomKill> oom;  // the kernel killed something for want of memory
  // What its calls, or all ranks', say: it ended with 0 and has not finished a collective; it waited in one for a rank
  // that it lost; or ranks differ.
  std::optional<Verdict> verdict;
  // Of a failure with an error record: a rank that still runs had written its own before.
  bool another_failed_before = false;
  bool is_injected = false;  // --inject killed it
};

// A signal to the launcher, which is also told to stop (SIGTSTP) and to go on (SIGCONT).
struct SignalArrived {
  int signal;
  std::string reason = {};  // empty: the signal is the reason
};

// The process that watches over this one is gone: nothing else would clean up.
struct GuardianLost {};

// Our output has no reader any more, and the user wants the job to end then.
struct ConsoleClosed {};

// The kernel does not let the launcher signal this worker: it has become another user's.
struct SignalRefused {
  int local_rank;
};

// The alarm that the state asked for is due.
struct AlarmRang {};

// The job's coordinator ends the attempt: another node has a cause for it, or is lost.
struct EndedElsewhere {
  wire::Cause cause;
};

// The coordinator ends the attempt for a failure of this node's, since no other rank has said more of it in time.
struct Settled {};

// Ranks have ended with 0, and the others have not followed within --exit-timeout.
struct ExitTimedOut {};

using Event = std::variant<WorkerStarted, SpawnFailed, WorkerEnded, SignalArrived, AlarmRang, GuardianLost,
                           ConsoleClosed, HangNews, EndedElsewhere, Settled, ExitTimedOut, SignalRefused>;

// The request that the job end, if the event is one. The guardian's end is one, too: nothing would clean up after us.
inline std::optional<SignalArrived> request_in(const Event& event, std::span<const int> ending_signals) {
  const auto* arrived = std::get_if<SignalArrived>(&event);
  if (arrived != nullptr && base::contains(ending_signals, arrived->signal)) return *arrived;
  if (std::holds_alternative<ConsoleClosed>(event)) return SignalArrived{SIGPIPE};
  if (std::holds_alternative<GuardianLost>(event)) return SignalArrived{SIGTERM};
  return std::nullopt;
}

struct SendSignal {
  int local_rank;
  int signal;
  SignalTarget target;

  friend bool operator==(const SendSignal&, const SendSignal&) = default;
};

// While the job is still running.
struct Tell {
  LogLine line;

  friend bool operator==(const Tell&, const Tell&) = default;
};

// The coordinator is to hear what outcome() says: it ends the attempt, at once or when others do not know more of the
// cause.
struct ReportCause {
  friend bool operator==(const ReportCause&, const ReportCause&) = default;
};

// The programs of this node are to save and to leave.
struct AskToSave {
  friend bool operator==(const AskToSave&, const AskToSave&) = default;
};

// A user has asked a second time: the other nodes, too, are to wait no longer.
struct ReportUrgency {
  friend bool operator==(const ReportUrgency&, const ReportUrgency&) = default;
};

// The attempt is over here; outcome() says how.
struct Finish {
  friend bool operator==(const Finish&, const Finish&) = default;
};

using Action = std::variant<SendSignal, Tell, AskToSave, ReportCause, ReportUrgency, Finish>;

}  // namespace ddp::launcher
