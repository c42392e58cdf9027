// Describes how the workers of a node ended and why, and how the job ends for the node. All types are plain values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "launcher/run/job/blame.h"
#include "launcher/run/job/event.h"
#include "launcher/run/ranks/straggler_report.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// A worker failed, or exited with 0 before it had finished what other ranks waited for.
struct WorkerFailed {
  WorkerEnd end;
  std::optional<Verdict> verdict;  // what the ranks' calls show about it
};

// Says why the workers ended. std::monostate means that all succeeded.
using RootCause = std::variant<std::monostate, WorkerFailed, SpawnFailed, SignalArrived, GuardianLost, ExitTimedOut,
                               HangNews, EndedElsewhere>;

struct RankAndPid {
  int rank = 0;
  pid_t pid = 0;
};

// Says why the workers got SIGKILL as well.
enum class KillReason {
  grace_over,
  asked_to_end,   // the user asked while the job was ending
  guardian_lost,  // the launcher's first process was killed
};

struct JobOutcome {
  base::ExitStatus status = base::ExitStatus::exited(0);  // exit status of the launcher, if no other attempt follows
  RootCause cause;
  wire::Knowledge knowledge = wire::Knowledge::certain;  // knowledge about the cause; other ranks may know more

  std::vector<WorkerEnd> also_failed;  // workers that failed by themselves after the culprit
  std::vector<int> ended_ranks;        // ranks that the launcher ended
  std::vector<int> left_early;         // ranks that exited with 0 before the job was ended, in that order
  std::vector<int> not_started;        // ranks that were not started, because the job was already ending
  std::vector<int> asked_with;         // signals that asked the workers to end, in their order
  bool was_asked_to_save = false;      // and to leave
  bool has_saved = false;              // all workers succeeded after they were asked to save and to leave
  // What the coordinator knows better than this node: repeated_error, or preempted if the job exits with 75. Else none.
  wire::CauseCode code_of_job = wire::CauseCode::none;
  bool needed_kill = false;  // these signals were not enough for some workers
  KillReason kill_reason = KillReason::grace_over;
  std::vector<RankAndPid> unkillable;
  std::vector<pid_t> leftovers;             // other processes of the job that cannot be killed
  std::chrono::nanoseconds run_time{0};     // time from the start to the first cause, or to the end
  std::chrono::nanoseconds ending_time{0};  // time from the first cause to the end
  std::vector<WorkerEnd> ends;              // ends of all workers, in the order in which they were seen
  StragglerReport stragglers;               // ranks for which the others waited

  template <typename Cause>
  const Cause* cause_as() const {
    return std::get_if<Cause>(&cause);
  }
  bool has_succeeded() const { return status.success() || has_saved; }
  // Returns the worker that failed, or null if no worker is the cause.
  const WorkerEnd* culprit() const {
    const auto* failed = cause_as<WorkerFailed>();
    return failed == nullptr ? nullptr : &failed->end;
  }
};

// Returns a text such as "rank 5: exit code 3; not restarted: asked to end meanwhile", without the node.
std::string full_text(const wire::Cause& cause);
// Returns a text such as "node b: rank 5: exit code 3".
std::string describe(const wire::Cause& cause);

// Returns the cause in a few words, such as "rank 1: killed by SIGSEGV". Returns an empty string after success.
std::string describe_failure(const JobOutcome& outcome);

// Returns whether another attempt is worthwhile. It is after a worker's failure, after a hang, and if a rank does not
// end. It is not after a request to end, or if the program cannot be started.
bool is_worth_another(const JobOutcome& outcome);

// Returns the node on which the first culprit runs, or an empty string if it is this node.
std::string node_of_culprit(const HangNews& hang);

// Returns the cause that this node reports to the coordinator, and through it to the other nodes.
wire::Cause cause_of(const JobOutcome& outcome);
// Unless the request ends the job, the job may go on without this node (Cause::may_restart).
wire::Cause cause_of(const SignalArrived& event);
// Returns the cause for a second request.
wire::Cause urgent_cause_of(const SignalArrived& event);
wire::Cause cause_of(const HangNews& difference);
wire::Cause cause_of_own_fault(const std::string& text);
// Returns the cause for workers that cannot be killed. No other attempt can begin while they exist.
wire::Cause remains_of(const JobOutcome& outcome);

// Holds the facts from which conclude() determines how the job ends for this node.
struct LastFacts {
  std::optional<JobOutcome> last;  // outcome of the last attempt, unless another was to follow
  std::string what_followed;       // text that the user has read with that attempt
  RootCause asked;                 // request to end that this node got while no attempt ran
  bool in_haste = false;           // this node left without a message from the coordinator
  bool is_alone = false;           // the job has one node
  bool has_run = false;            // whether any attempt has run
  std::string own_name;            // name of this node in causes
};

// Other ranks may know more than the workers of this node, which have ended because they lost another rank. If the
// cause shows that, it becomes that of the outcome, and their failures follow from it. Returns whether it does. This
// function is pure.
bool adopt_cause(JobOutcome& outcome, const wire::Cause& cause, const std::string& own_name);

// Returns what the coordinator's cause says about the job that the cause of a node does not: see
// JobOutcome::code_of_job.
wire::CauseCode code_of_job(const wire::Cause& cause);

struct Conclusion {
  JobOutcome outcome;
  std::string line;                         // line for the user, if not reported yet; empty if there is none
  LogLevel level = LogLevel::error;         // level of that line
  bool was_ended_between_attempts = false;  // the user does not know of that yet
  bool is_from_another_node = false;        // that line; this node's workers had ended before its cause arrived
};

// `cause` is the cause of the end. It is the same on all nodes, and so is the exit code. This function is pure.
Conclusion conclude(LastFacts facts, const wire::Cause& cause);

}  // namespace ddp::launcher
