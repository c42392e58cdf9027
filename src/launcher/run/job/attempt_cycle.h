// AttemptCycle decides what a launcher does before, between and after the attempts of its node. It decides when one
// begins, what a request to end means then, and when the launcher leaves the job. It turns what happens into actions,
// without a clock, processes or sockets. JobState supervises an attempt while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/run/job/event.h"
#include "launcher/run/job/job_link.h"
#include "launcher/run/job/outcome.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/placement.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// Begins the attempt of place().
struct BeginAttempt {};
// Gives an event to the JobState of the attempt that runs.
struct Supervise {
  Event event;
};
// A rank gave up waiting. The coordinator may know for which rank all others wait, and logs it before the attempt ends.
struct ExplainWait {
  wire::Cause cause;
};
// Reports a cause to the coordinator.
struct ReportFailure {
  wire::Cause cause;
};
// Reports to the coordinator that no worker of the attempt runs anymore. If `has_run` is false, none was started.
struct ReportEnd {
  bool has_run = true;
};
// Shows the user an event that no JobState gets.
struct ShowEvent {
  Event event;
};
// Waits as long as wait_for_cause() says. attempt_is_over() must be called then.
struct AwaitCause {};
// attempt_is_over() must be called now.
struct StopAwaiting {};
// Shows the user how the attempt of outcome() ended: see JobObserver::attempt_ended.
struct ShowEnd {
  std::string next;
  bool is_last = false;
};
// The launcher leaves the job. conclusion() says how.
struct Leave {};

using CycleAction = std::variant<BeginAttempt, Supervise, ExplainWait, ReportFailure, ReportEnd, ShowEvent, AwaitCause,
                                 StopAwaiting, ShowEnd, Leave, LogLine>;

// The phases are: waiting ──the coordinator starts an attempt──▶ running ──all workers have ended──▶ draining ──their
// output is shown──▶ ended ──the cause is known──▶ waiting … ──the job is over──▶ leaving ──the other nodes know it──▶
// Leave. An attempt that is ended before it could begin never begins. No request to end is lost, whatever the phase.
class AttemptCycle {
 public:
  using Actions = std::vector<CycleAction>;

  AttemptCycle(std::string host_name, bool has_other_nodes, std::vector<int> ending_signals)
      : host_name_(std::move(host_name)),
        has_other_nodes_(has_other_nodes),
        ending_signals_(std::move(ending_signals)) {}

  // --- These functions report what has happened.
  Actions happened(const Event& event, TimePoint now);
  Actions happened(const StartAttempt& event);
  Actions happened(const EndWorkers& event);
  Actions happened(const AttemptFollows& event);
  Actions happened(const LeaveJob& event);
  // Remembers a request to end that came during an attempt, or while its output was shown. Returns it if it is one.
  std::optional<SignalArrived> note_request(const Event& event, TimePoint now);
  // This node has reported a cause of the attempt to the coordinator.
  void has_reported() { has_reported_ = true; }
  // All workers have ended, and their output is being shown. Then the outcome is known, and the output was shown.
  void drains() { phase_ = Phase::draining; }
  void has_ended_with(JobOutcome outcome);
  Actions output_was_shown();
  Actions attempt_is_over();
  // The node cannot go on. It leaves without a message: the other nodes see the connection end. If the job's end is
  // known, it stays the cause.
  Actions leave_at_once(const wire::Cause& cause);

  // Returns what follows when all that happened is processed. `is_preparing` says that no attempt should begin yet, and
  // `is_through` that all other nodes know of the end.
  Actions proceed(bool is_preparing, bool is_through);

  bool is_running() const { return phase_ == Phase::running; }
  bool has_ended() const { return phase_ == Phase::ended; }
  bool knows_end() const { return leave_.has_value(); }
  bool is_in_haste() const { return in_haste_; }
  const std::optional<SignalArrived>& request() const { return request_; }
  std::optional<SignalArrived> request_in(const Event& event) const {
    return launcher::request_in(event, ending_signals_);
  }
  // Returns the place of this node in the current or the last attempt.
  const Placement& place() const { return place_; }
  // Returns the outcome of the last attempt that has ended.
  const JobOutcome& outcome() const { return outcome_; }
  std::string own_name() const { return place_.node_name.empty() ? host_name_ : place_.node_name; }
  // Workers that lost another rank do not know the cause. The coordinator knows it, at the latest after its own wait.
  // The last records of other nodes usually arrive with the end of their workers. Returns std::nullopt if there is
  // nothing to wait for.
  std::optional<std::chrono::nanoseconds> wait_for_cause(bool awaits_records) const;
  // Valid after Leave. Returns how the job ends for this node, and the cause of that.
  Conclusion conclusion() const;
  const wire::Cause& cause() const { return *leave_; }

 private:
  enum class Phase : std::uint8_t { waiting, running, draining, ended, leaving };

  Actions learn(const wire::Cause& cause);
  Actions asked_while_waiting(const Event& event, TimePoint now);

  const std::string host_name_;
  const bool has_other_nodes_;
  const std::vector<int> ending_signals_;
  Phase phase_ = Phase::waiting;
  std::optional<Placement> start_;
  Placement place_;
  bool has_reported_ = false;  // a cause of this attempt
  bool knows_cause_ = false;   // the coordinator has reported one after the workers' end
  JobOutcome outcome_;
  bool has_run_ = false;                  // whether any attempt has run
  std::optional<SignalArrived> request_;  // last request during an attempt, or while its output was shown
  TimePoint requested_at_{};              // time of the first request
  RootCause asked_;                       // request to end that this node got while no attempt ran
  std::string what_follows_;              // describes what follows the ended attempt
  std::optional<JobOutcome> last_;        // outcome of the attempt that no other one follows
  std::optional<wire::Cause> leave_;      // the end of the job
  bool in_haste_ = false;
};

}  // namespace ddp::launcher
