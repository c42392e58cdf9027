// How the workers of a node ended, and why; and how the job ends for it. Values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "launcher/job/blame.h"
#include "launcher/job/event.h"
#include "launcher/watchdog/straggler_table.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// A worker failed, or ended with 0 before it had finished what others waited for.
struct WorkerFailed {
  WorkerEnd end;
  std::optional<Verdict> verdict;  // what the ranks' calls say of it
};

// Why they ended; monostate: all succeeded.
using RootCause = std::variant<std::monostate, WorkerFailed, SpawnFailed, SignalArrived, GuardianLost, ExitTimedOut,
                               HangNews, EndedElsewhere>;

struct RankAndPid {
  int rank = 0;
  pid_t pid = 0;
};

// Why SIGTERM was not all that workers were given.
enum class KillReason {
  grace_over,
  asked_to_end,   // by the user, while the job was ending
  guardian_lost,  // the launcher's first process was killed
};

struct JobOutcome {
  base::ExitStatus status = base::ExitStatus::exited(0);  // the launcher's own, if no other attempt follows
  RootCause cause;
  wire::Knowledge knowledge = wire::Knowledge::certain;  // of it; others may know more

  std::vector<WorkerEnd> also_failed;  // by themselves, after the culprit
  std::vector<int> ended_ranks;        // by us
  std::vector<int> left_early;         // with exit code 0 before the job was ended, in that order
  std::vector<int> not_started;        // since the job was being ended already
  std::vector<int> asked_with;         // signals that workers were asked to end with, in their order
  bool has_saved = false;              // all succeeded, after they were asked to save and to leave
  bool needed_kill = false;            // they were not enough for some of them
  KillReason kill_reason = KillReason::grace_over;
  std::vector<RankAndPid> unkillable;
  std::vector<pid_t> leftovers;             // other processes of the job that cannot be killed
  std::chrono::nanoseconds run_time{0};     // start to the first cause, or to the end
  std::chrono::nanoseconds ending_time{0};  // first cause to the end
  std::vector<WorkerEnd> ends;              // of all workers, in the order in which they were seen
  StragglerReport stragglers;               // for whom the others waited

  template <typename Cause>
  const Cause* cause_as() const {
    return std::get_if<Cause>(&cause);
  }
  bool has_succeeded() const { return status.success() || has_saved; }
  // The worker that failed; a null pointer: none is the cause.
  const WorkerEnd* culprit() const {
    const auto* failed = cause_as<WorkerFailed>();
    return failed == nullptr ? nullptr : &failed->end;
  }
};

// "rank 5: exit code 3; not restarted: asked to end meanwhile", without the node.
std::string full_text(const wire::Cause& cause);
// "node b: rank 5: exit code 3".
std::string describe(const wire::Cause& cause);

// The cause in a few words: "rank 1: killed by SIGSEGV". Empty after success.
std::string describe_failure(const JobOutcome& outcome);

// A worker's failure, a hang, and a rank that does not end are worth another attempt; a request to end and a program
// that cannot be started are not.
bool is_worth_another(const JobOutcome& outcome);

// Where the first of those to blame runs; empty: here.
std::string node_of_culprit(const HangNews& hang);

// What the coordinator, and by it the other nodes, hear of what happened here.
wire::Cause cause_of(const JobOutcome& outcome);
wire::Cause cause_of(const SignalArrived& event);
// Of a second request.
wire::Cause urgent_cause_of(const SignalArrived& event);
wire::Cause cause_of(const HangNews& difference);
// Of workers that cannot be killed: with these no other attempt can begin.
wire::Cause remains_of(const JobOutcome& outcome);

// How a job ends for this node, when its coordinator has said so: Conclusion. Pure.
struct LastFacts {
  std::optional<JobOutcome> last;  // of the attempt that no other one follows; nothing: another one was to follow
  std::string what_followed;       // as the user was told with it
  RootCause asked;                 // who asked this node to end while no attempt ran
  bool in_haste = false;           // it left without the coordinator's word
  bool is_alone = false;           // a job of one node
  bool has_run = false;            // any attempt
  std::string own_name;            // this node's, as causes have it
};

struct Conclusion {
  JobOutcome outcome;
  std::string line;                         // for the user, who has not been told; empty: nothing
  bool was_ended_between_attempts = false;  // the user does not know it yet
};

// `cause`: of the end, the same on all nodes, and with it the exit code.
Conclusion conclude(LastFacts facts, const wire::Cause& cause);

}  // namespace ddp::launcher
