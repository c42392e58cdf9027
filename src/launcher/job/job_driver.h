// JobDriver runs this node's part in a job, of one node or of several, from the first attempt to the end. All events go
// through one queue. Pure modules turn them into actions: JobState and conclude(), and behind JobLink the coordinator
// and the agent. See docs/development/decisions/0029-one-lifecycle.md and
// docs/development/decisions/0031-one-queue-of-events.md.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "launcher/job/agent.h"
#include "launcher/job/event.h"
#include "launcher/job/job_link.h"
#include "launcher/job/job_state.h"
#include "launcher/job/outcome.h"
#include "launcher/job/timed_faults.h"
#include "launcher/job/worker_group.h"
#include "launcher/log/log_line.h"
#include "launcher/watchdog/watchdog.h"

namespace ddp::launcher {

// The driver calls these functions for the events of a job. They feed the console, the event log and the summary. None
// may block unless its comment says that it does.
struct JobObserver {
  // The launcher looks for the other nodes, or waits for them as the coordinator, which is node 0. Called only if the
  // job has several nodes; twice if it turns out that this launcher is the coordinator.
  std::function<void(bool is_coordinator)> looks_for_nodes;
  std::function<void(const Placement& placement)> attempt_begins;
  std::function<void(const Event& event)> event;
  // All of the attempt's processes have ended. `next` describes what follows, or is empty if nothing does. If
  // `is_last`, nothing else waits for the caller, which may block until the user has been informed. If a rank got no
  // GPU memory, this function blocks for limits::kGpuUsersTime at most.
  std::function<void(const JobOutcome& outcome, const std::string& next, bool is_last)> attempt_ended;
  // The user ended the job while it waited for the next attempt. This function may block.
  std::function<void(const JobOutcome& outcome)> ended_between_attempts;
  LogWriter log;
};

// All of these objects must outlive the driver.
struct JobDriverParts {
  net::Timers& timers;
  const LaunchPlan& plan;
  WorkerGroup& workers;
  std::function<base::Result<std::unique_ptr<JobLink>>(JobLink::Callbacks callbacks)> open_link;
  std::function<std::unique_ptr<Watchdog>(RankExchange& exchange, const Placement& placement,
                                          std::function<void(const HangNews& news)> tell)>
      open_watchdog;
  JobObserver observer;
  std::function<void()> wake;  // called when has_work() becomes true
};

// Belongs to one thread. As long as the driver is not over, its owner calls work() when has_work() is true.
class JobDriver {
 public:
  explicit JobDriver(JobDriverParts parts);
  ~JobDriver() { parts_.workers.on_exit(nullptr); }

  // Queues an event from outside, at any time. work() processes it.
  void deliver(const Event& event) { post(event); }

  // Takes the stacks of all ranks: see Watchdog::look(). Without a running attempt, `done` gets nothing.
  void look(std::function<void(const HangNews& news)> done) {
    phase_ == Phase::running&& watchdog_ ? watchdog_->look(std::move(done)) : done({});
  }

  // See JobLink.
  std::vector<std::string> spares() const { return link_ ? link_->spares() : std::vector<std::string>(); }

  bool has_work() const { return !queue_.empty(); }
  // Performs one step. Must not be called from within a callback of the parts.
  void work();
  bool is_over() const { return result_.has_value(); }

  // Valid when is_over(). Returns the last attempt's outcome, or why an attempt could not begin. No process of the job
  // runs anymore.
  const base::Result<JobOutcome>& result() const { return *result_; }

 private:
  enum class Phase : std::uint8_t {
    waiting,   // waits for the coordinator's message
    running,   // an attempt runs
    draining,  // all workers have ended; their output is shown
    ended,     // the coordinator may report at once what follows
    leaving,   // leaves when the other nodes know of the end
  };

  // --- These events exist besides Event.
  struct Begin {};
  struct StartWorker {
    int local_rank;
  };
  struct OutputShown {};  // the output of the ended attempt was shown
  struct AttemptOver {};
  using Turn = std::variant<Event, Begin, StartWorker, StartAttempt, EndWorkers, AttemptFollows, LeaveJob, FirstNode,
                            LinkChanges, OutputShown, AttemptOver, OthersKnow>;

  void post(Turn turn);
  void handle(const Event& event);
  void handle(const Begin&);
  void handle(const StartWorker& turn);
  void handle(const StartAttempt& turn) { start_ = turn.place; }
  void handle(const EndWorkers& turn);
  void handle(const AttemptFollows& turn);
  void handle(const LeaveJob& turn);
  void handle(const FirstNode&);
  void handle(const LinkChanges&);
  void handle(const OutputShown&);
  void handle(const AttemptOver&);
  void handle(const OthersKnow&) {}
  void proceed();

  // --- These functions connect the driver to the other nodes.
  void hear(const LogLine& line);
  void hear(const Shown& shown);
  void hear(const ShowCoordinator& asks) { exchange_.asked(asks.what, asks.asked_at); }
  void hear(const RoomToPrint&) { parts_.workers.room_elsewhere(); }
  void hear(const auto& turn) { post(turn); }
  std::optional<base::Failure> open_link();
  void send_output_to_coordinator();
  void log(LogLevel level, std::string text) const { parts_.observer.log({level, LogSource::job, std::move(text)}); }
  std::string own_name() const { return place_.node_name.empty() ? parts_.plan.host_name : place_.node_name; }

  // --- These functions run an attempt.
  void begin_attempt(const Placement& place);
  void step(const Event& event);
  void carry_out(const SendSignal& action);
  void carry_out(const Tell& action) { parts_.observer.log(action.line); }
  void carry_out(const ReportState&) {
    if (parts_.plan.log.level <= LogLevel::note) watchdog_->asked();
  }
  void carry_out(const ReportUrgency&) { link_->failed(urgent_cause_of(*request_)); }
  void carry_out(const ReportCause&);
  void carry_out(const AskToSave&) { parts_.workers.request_stop(); }
  void carry_out(const AskForStates&);
  void carry_out(const Finish&) {}
  void look_for_states();
  void look_after_states();
  void show_calls_once_ending();
  void worker_has_ended(int local_rank, const WorkerExit& exit);
  void end_attempt();
  void judge_late_difference();
  void learn(const wire::Cause& cause);
  void end_when_known();

  // --- These functions act between attempts, and at the end.
  std::optional<SignalArrived> request_in(const Event& event) const {
    return launcher::request_in(event, parts_.plan.ending_signals);
  }
  std::optional<SignalArrived> note_request(const Event& event);
  bool is_asked_to_end() const;
  bool is_asked_again() const;  // since the request that is known
  void is_asked_while_waiting(const Event& event);
  void leave_at_once(const wire::Cause& cause);
  void leave() {
    phase_ = Phase::leaving;
    if (in_haste_ || link_->is_through()) finish();
  }
  void finish();
  void end_with(base::Result<JobOutcome> result);

  const JobDriverParts parts_;
  std::deque<Turn> queue_;
  Phase phase_ = Phase::waiting;
  RankExchange exchange_;
  std::unique_ptr<JobLink> link_;  // null if they are left, or could not be opened again
  std::optional<Placement> start_;
  Placement place_;  // placement in the current or the last attempt

  // These members belong to the current or the last attempt.
  std::optional<JobState> state_;
  std::unique_ptr<Watchdog> watchdog_;
  std::optional<TimedFaults> faults_;
  std::unique_ptr<net::Watch> alarm_;
  std::unique_ptr<net::Watch> states_look_;
  std::unique_ptr<net::Watch> room_look_;
  bool has_reported_ = false;   // a cause was reported to the coordinator
  bool knows_cause_ = false;    // the coordinator has reported one after the workers' end
  bool has_shown_end_ = false;  // the ranks' calls were shown when the ranks were asked to end
  bool ranks_differ_ = false;   // a rank of this attempt has found that ranks called different operations
  std::optional<std::chrono::system_clock::time_point> asked_to_end_at_;
  int store_warnings_ = 0;
  bool are_warnings_due_ = true;  // no worker has failed yet
  JobOutcome outcome_;
  wire::Progress progress_{};

  bool has_run_ = false;                  // whether any attempt has run
  std::optional<SignalArrived> request_;  // last request during an attempt, or while its output was shown
  TimePoint requested_at_{};              // time of the first request
  RootCause asked_;                       // request to end that this node got while no attempt ran
  std::string what_follows_;              // describes what follows the ended attempt
  std::optional<JobOutcome> last_;        // outcome of the attempt that no other one follows
  std::optional<wire::Cause> leave_;
  bool in_haste_ = false;
  std::optional<base::Result<JobOutcome>> result_;
};

}  // namespace ddp::launcher
