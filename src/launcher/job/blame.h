// Who caused the end of an attempt: the only rule, over the workers of a node and over the causes of nodes. Pure.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/exit_status.h"
#include "launcher/job/error_record.h"
#include "launcher/process/memory_events.h"
#include "launcher/watchdog/verdict.h"
#include "wire/control_message.h"

namespace ddp::launcher {

using TimePoint = std::chrono::steady_clock::time_point;

// How one worker ended.
struct WorkerEnd {
  int local_rank = 0;
  int rank = 0;
  pid_t pid = 0;
  base::ExitStatus status = base::ExitStatus::exited(0);
  std::optional<ErrorRecord> error;
  TimePoint when;
  bool after_signal = false;  // we had asked it to end
  std::uint64_t peak_rss_bytes = 0;
  std::optional<OomKill> oom;
  std::optional<Verdict> verdict;  // see WorkerEnded
  bool after_kill = false;         // we had sent SIGKILL
  bool is_injected = false;        // --inject killed it

  // Whether the end is what our SIGINT, SIGTERM or SIGKILL leads to.
  bool is_our_doing() const;
  // It ended with 0 before it was asked to end.
  bool has_left() const { return status.success() && !after_signal; }
  // It failed because it lost another rank.
  bool is_secondary() const { return error && error->is_secondary; }
  // A time-out of its own passed while it waited for another rank.
  bool gave_up() const { return error && error->is_timeout; }
};

bool failed_by_itself(const WorkerEnd& end);

// Whether other ranks may know more of the cause than this failed one: it lost a rank that may say why, or another one
// failed before and has not ended yet (`another_failed_before`), or ranks called different things, and those that have
// not failed yet may show who is wrong, or are it.
bool others_know_more(const WorkerEnd& end, bool another_failed_before);

// `ends`: of all workers that have ended, in the order in which they were seen. The first one that failed by itself; a
// null pointer if none did.
const WorkerEnd* find_first_failure(std::span<const WorkerEnd> ends);

// The cause of the end; a null pointer if none failed. In this order:
// - Where ranks called different things, those that differ from most.
// - Of workers with error records that are no secondary failures, the one with the oldest record, even if its end took
//   so long that we asked it to end.
// - The first that failed by itself and is no secondary failure, within limits::kSecondaryWait of the first failure, or
//   limits::kNamedPeerWait if that one names the rank that it lost.
// - One that had ended with 0 and is named by a secondary failure, or had not finished its collectives; or the only one
//   that had ended with 0, if the secondary failure names none.
// - The first that failed.
const WorkerEnd* find_culprit(std::span<const WorkerEnd> ends);

// What the ranks' calls say of the culprit; of one that gave up, for whom it waited.
std::optional<Verdict> verdict_on(const WorkerEnd& culprit, std::span<const WorkerEnd> ends);

// How much the end of this culprit says, when no other rank has said more.
wire::Knowledge knowledge_of(const WorkerEnd& culprit);

// --- Of causes, of whatever node: each the culprit of its own.

// Of those that say equally much the first one counts.
bool says_more(const wire::Cause& cause, const std::optional<wire::Cause>& known);

// How long a cause that says more is waited for; 0: not at all. A rank whose end takes its time (Python, a core dump)
// is waited for longer if a secondary failure names it.
std::chrono::milliseconds wait_for_more(const wire::Cause& cause);

// The cause, if the rank that a secondary failure lost had ended with 0 in the middle of the job, on `node`.
wire::Cause left_early(const wire::Cause& secondary, const std::string& node);

}  // namespace ddp::launcher
