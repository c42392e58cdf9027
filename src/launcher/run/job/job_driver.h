// JobDriver runs this node's part in a job, of one node or of several, from the first attempt to the end. All events go
// through one queue. Pure modules turn them into actions: JobState and conclude(), and behind JobLink the coordinator
// and the agent. See docs/development/decisions/0029-one-lifecycle.md and
// docs/development/decisions/0031-one-queue-of-events.md.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/run/job/agent.h"
#include "launcher/run/job/attempt_cycle.h"
#include "launcher/run/job/event.h"
#include "launcher/run/job/job_link.h"
#include "launcher/run/job/job_state.h"
#include "launcher/run/job/outcome.h"
#include "launcher/run/job/timed_faults.h"
#include "launcher/run/job/worker_group.h"
#include "launcher/run/watchdog/watchdog.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// The driver calls these functions for the events of a job. They feed the console, the event log and the summary. None
// may block unless its comment says that it does.
struct JobObserver {
  // The launcher looks for the other nodes, or waits for them as the coordinator, which is node 0. Called only if the
  // job has several nodes; twice if it turns out that this launcher is the coordinator.
  std::function<void(bool is_coordinator)> searches_for_nodes;
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

  // Takes the stacks of all ranks: see Watchdog::take_stacks(). Without a running attempt, `done` gets nothing.
  void take_stacks(std::function<void(const HangNews& news)> done) {
    cycle_.is_running() && watchdog_ ? watchdog_->take_stacks(std::move(done)) : done({});
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
  void handle(const FirstNode&);
  void handle(const LinkChanges&);
  void handle(const OutputShown&);
  void handle(const AttemptOver&);
  void handle(const OthersKnow&) {}
  void handle(const auto& event) { carry_out(cycle_.happened(event)); }

  // --- These functions connect the driver to the other nodes.
  void hear(const LogLine& line);
  void hear(const Shown& shown);
  void hear(const ShowCoordinator& asks) { exchange_.asked(asks.what, asks.asked_at); }
  void hear(const RoomToPrint&) { parts_.workers.room_elsewhere(); }
  void hear(const auto& turn) { post(turn); }
  std::optional<base::Failure> open_link();
  void send_output_to_coordinator();
  void log(LogLevel level, std::string text) const { parts_.observer.log({level, LogSource::job, std::move(text)}); }

  // --- These functions carry out what AttemptCycle decides.
  void carry_out(const AttemptCycle::Actions& actions);
  void carry_out(const BeginAttempt&);
  void carry_out(const Supervise& action);
  void carry_out(const ExplainWait& action);
  void carry_out(const ReportFailure& action) { link_->failed(action.cause); }
  void carry_out(const ReportEnd& action);
  void carry_out(const ShowEvent& action) { parts_.observer.event(action.event); }
  void carry_out(const AwaitCause&);
  void carry_out(const StopAwaiting&) { post(AttemptOver{}); }
  void carry_out(const ShowEnd& action) {
    parts_.observer.attempt_ended(cycle_.outcome(), action.next, action.is_last);
  }
  void carry_out(const Leave&);
  void carry_out(const LogLine& line) { parts_.observer.log(line); }

  // --- These functions run an attempt, and carry out what its JobState decides.
  void supervise(const Event& event) { carry_out(Supervise{event}); }
  void carry_out(const SendSignal& action);
  void carry_out(const ReportState&) {
    if (parts_.plan.log.level <= LogLevel::note) watchdog_->asked();
  }
  void carry_out(const ReportUrgency&) { link_->failed(urgent_cause_of(*cycle_.request())); }
  void carry_out(const ReportCause&);
  void carry_out(const AskToSave&) { parts_.workers.request_stop(); }
  void carry_out(const AskForStates&);
  void poll_states();
  void check_states();
  void show_calls_once_ending();
  void worker_has_ended(int local_rank, const WorkerExit& exit);
  void end_attempt();
  void judge_late_difference();
  bool is_asked_again() const;  // since the request that is known
  void end_with(base::Result<JobOutcome> result);

  const JobDriverParts parts_;
  std::deque<Turn> queue_;
  AttemptCycle cycle_;
  RankExchange exchange_;
  std::unique_ptr<JobLink> link_;  // null if they are left, or could not be opened again

  // These members belong to the current or the last attempt.
  std::optional<JobState> state_;
  std::unique_ptr<Watchdog> watchdog_;
  std::optional<TimedFaults> faults_;
  std::unique_ptr<net::Watch> alarm_;
  std::unique_ptr<net::Watch> states_timer_;
  std::unique_ptr<net::Watch> room_timer_;
  bool has_shown_end_ = false;  // the ranks' calls were shown when the ranks were asked to end
  bool ranks_differ_ = false;   // a rank of this attempt has found that ranks called different operations
  std::optional<std::chrono::system_clock::time_point> asked_to_end_at_;
  int store_warnings_ = 0;
  bool are_warnings_due_ = true;  // no worker has failed yet
  wire::Progress progress_{};

  std::optional<base::Result<JobOutcome>> result_;
};

}  // namespace ddp::launcher
