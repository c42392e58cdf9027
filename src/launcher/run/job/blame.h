// Determines what caused the end of an attempt. The same rule applies to the workers of a node and to the causes of
// nodes. The functions are pure.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "launcher/run/job/event.h"
#include "launcher/run/ranks/verdict.h"
#include "wire/control_message.h"

namespace ddp::launcher {

bool failed_by_itself(const WorkerEnd& end);

// Returns whether other ranks may know more about the cause than this failed rank. They may if this rank lost another
// rank, which may report the reason. They may also if another rank failed before and has not ended yet. The third case
// is that ranks called different operations: a rank that has not failed yet may show which rank is wrong, or be wrong
// itself.
bool others_know_more(const WorkerEnd& end);

// `ends` holds all workers that have ended, in the order in which they were seen. Returns the first worker that failed
// by itself, or null if none did.
const WorkerEnd* find_first_failure(std::span<const WorkerEnd> ends);

// Returns the cause of the end, or null if no worker failed. The first of these rules that applies decides:
// - If ranks called different operations, a rank that differs from most is the cause.
// - If workers have error records that are no secondary failures, the worker with the oldest record is the cause. This
// holds even if it ended so slowly that the launcher asked it to end, and even if a secondary failure or an exit code
// without a record came first. A record that was written after the launcher had asked does not count.
// - The first worker that failed by itself, not as a secondary failure, is the cause. It must fail within
// limits::kSecondaryWait of the first failure, or limits::kNamedPeerWait if that one names the rank that it lost.
// - A worker that had exited with 0 is the cause if a secondary failure names it, or if it had not finished its
// collectives. If the secondary failure names no rank, the only worker that had exited with 0 is the cause.
// - A worker that lost another one while it handled an exception of its own is the cause.
// - Otherwise the first worker that failed is the cause.
const WorkerEnd* find_culprit(std::span<const WorkerEnd> ends);

// Returns what the ranks' calls show about the culprit. If the culprit gave up, the verdict shows for which rank it
// waited.
std::optional<Verdict> verdict_on(const WorkerEnd& culprit, std::span<const WorkerEnd> ends);

// Returns how much this culprit's end shows if no other rank has reported more.
wire::Knowledge knowledge_of(const WorkerEnd& culprit, std::span<const WorkerEnd> ends);

// --- These functions compare the causes of nodes. Each cause is the culprit of its own node.

// Returns whether `cause` shows more than `known`. Of causes that show equally much, the first one counts.
bool says_more(const wire::Cause& cause, const std::optional<wire::Cause>& known);

// Returns how long to wait for a cause that shows more; 0 means not at all. The wait is longer if a secondary failure
// names the lost rank, because that rank may end slowly (Python, a core dump).
std::chrono::milliseconds wait_for_more(const wire::Cause& cause);

// Returns the cause that a node is lost, or has lost its coordinator.
wire::Cause lost_node(const std::string& text, bool may_restart);

// Returns the cause for a secondary failure whose lost rank had exited with 0 in the middle of the job, on `node`.
wire::Cause left_early(const wire::Cause& secondary, const std::string& node);

}  // namespace ddp::launcher
