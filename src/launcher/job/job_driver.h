// JobDriver: this node's part in a job, of one node or of several, from the first attempt to the end: one queue of what
// happens, which pure modules (JobState, conclude(); behind Nodes the coordinator and the agent) turn into what is
// done. docs/development/decisions/0029-one-lifecycle.md, docs/development/decisions/0031-one-queue-of-events.md
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "launcher/job/event.h"
#include "launcher/job/job_state.h"
#include "launcher/job/node_agent.h"
#include "launcher/job/nodes.h"
#include "launcher/job/outcome.h"
#include "launcher/job/timed_faults.h"
#include "launcher/job/worker_group.h"
#include "launcher/log/log_line.h"
#include "launcher/watchdog/watchdog.h"

namespace ddp::launcher {

// Called for what happens in a job; the console, the event log and the summary are fed from here. None may block unless
// its comment says that it does.
struct JobObserver {
  std::function<void()> looks_for_nodes;  // of several
  std::function<void(const Placement& placement)> attempt_begins;
  std::function<void(const Event& event)> event;
  // All of the attempt's processes are gone. `next` says what comes then: "" for nothing. `is_last`: nothing else waits
  // for the caller, which may block until the user has been told.
  std::function<void(const JobOutcome& outcome, const std::string& next, bool is_last)> attempt_ended;
  // The user ended the job while it waited for the next attempt. May block.
  std::function<void(const JobOutcome& outcome)> ended_between_attempts;
  LogWriter log;
};

// All of it must outlive the driver.
struct JobDriverParts {
  net::Timers& timers;
  const LaunchPlan& plan;
  WorkerGroup& workers;
  std::function<base::Result<std::unique_ptr<Nodes>>(Nodes::Callbacks callbacks)> open_nodes;
  std::function<std::unique_ptr<Watchdog>(RankExchange& exchange, const Placement& placement,
                                          std::function<void(const HangNews& news)> tell)>
      open_watchdog;
  JobObserver observer;
  std::function<void()> wake;  // there is something to do: has_work()
};

// Belongs to one thread. To be driven: while it is not over, work() is called when has_work().
class JobDriver {
 public:
  explicit JobDriver(JobDriverParts parts);
  ~JobDriver() { parts_.workers.on_exit(nullptr); }

  // Takes what comes from outside, at any time; it has its turn in work().
  void deliver(const Event& event) { post(event); }

  bool has_work() const { return !queue_.empty(); }
  // One step. Must not be called from within a callback of the parts.
  void work();
  bool is_over() const { return result_.has_value(); }

  // When is_over(): the last attempt's outcome, or why an attempt could not begin. Nothing of the job runs any more.
  const base::Result<JobOutcome>& result() const { return *result_; }

 private:
  enum class Phase : std::uint8_t {
    waiting,   // for the coordinator's word
    running,   // an attempt
    draining,  // all its workers have ended; their output is shown
    ended,     // the coordinator may say at once what follows
    leaving,   // when the other nodes know of the end
  };

  // --- What happens beside Event.
  struct Begin {};
  struct StartWorker {
    int local_rank;
  };
  struct StartAttempt {
    Placement place;
  };
  struct FirstNode {};    // the endpoint's name has become known as our own
  struct OutputShown {};  // of the attempt that has ended
  struct AttemptOver {};
  struct OthersKnow {};  // of the end
  using Turn = std::variant<Event, Begin, StartWorker, StartAttempt, EndWorkers, AttemptFollows, LeaveJob, FirstNode,
                            OutputShown, AttemptOver, OthersKnow>;

  void post(Turn turn);
  void handle(const Event& event);
  void handle(const Begin&);
  void handle(const StartWorker& turn);
  void handle(const StartAttempt& turn) { start_ = turn.place; }
  void handle(const EndWorkers& turn);
  void handle(const AttemptFollows& turn);
  void handle(const LeaveJob& turn) { leave_ = turn.cause; }
  void handle(const FirstNode&);
  void handle(const OutputShown&);
  void handle(const AttemptOver&);
  void handle(const OthersKnow&) {}
  void proceed();

  // --- The nodes.
  Nodes::Callbacks nodes_callbacks();
  std::optional<base::Failure> open_nodes();
  void send_output_to_coordinator();
  void show(const Shown& shown);
  void log_of_nodes(const LogLine& line);
  void log(LogLevel level, std::string text) const { parts_.observer.log({level, LogSource::job, std::move(text)}); }
  std::string own_name() const { return place_.node_name.empty() ? parts_.plan.host_name : place_.node_name; }

  // --- An attempt.
  void begin_attempt(const Placement& place);
  void step(const Event& event);
  void carry_out(const SendSignal& action);
  void carry_out(const Tell& action) { parts_.observer.log(action.line); }
  void carry_out(const ReportUrgency&) { nodes_->failed(urgent_cause_of(*request_)); }
  void carry_out(const ReportCause&);
  void carry_out(const AskToSave&) { parts_.workers.request_stop(); }
  void carry_out(const Finish&) {}
  void show_calls_once_ending();
  void worker_has_ended(int local_rank, const WorkerExit& exit);
  bool another_failed_before(const ErrorRecord& record) const;
  void end_attempt();
  void judge_late_difference();

  // --- Between attempts, and at the end.
  std::optional<SignalArrived> request_in(const Event& event) const;
  std::optional<SignalArrived> note_request(const Event& event);
  bool is_asked_to_end() const;
  void is_asked_while_waiting(const Event& event);
  void leave_at_once(const wire::Cause& cause);
  void leave();
  void finish();
  void end_with(base::Result<JobOutcome> result);

  const JobDriverParts parts_;
  std::deque<Turn> queue_;
  Phase phase_ = Phase::waiting;
  RankExchange exchange_;
  std::unique_ptr<Nodes> nodes_;  // null: it is left, or could not be opened again
  std::optional<Placement> start_;
  Placement place_;  // in the attempt that runs, or was the last
  std::string last_failure_;

  // Of the attempt that runs, or was the last.
  std::optional<JobState> state_;
  std::unique_ptr<Watchdog> watchdog_;
  std::optional<TimedFaults> faults_;
  std::unique_ptr<net::Watch> alarm_;
  bool has_reported_ = false;   // a cause, to the coordinator
  bool has_shown_end_ = false;  // what the ranks called, when they were asked to end
  int store_warnings_ = 0;
  bool are_warnings_due_ = true;  // no worker has failed yet
  JobOutcome outcome_;
  wire::Progress progress_{};

  bool has_run_ = false;                  // any attempt
  std::optional<SignalArrived> request_;  // the last one during an attempt, or while its output was shown
  TimePoint requested_at_{};              // the first one
  RootCause asked_;                       // while none ran: who asked this node to end
  std::string what_follows_;              // the attempt that has ended
  std::optional<JobOutcome> last_;        // of the attempt that no other one follows
  std::optional<wire::Cause> leave_;
  bool in_haste_ = false;
  std::optional<base::Result<JobOutcome>> result_;
};

}  // namespace ddp::launcher
