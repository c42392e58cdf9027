// JobState supervises an attempt as a function. It turns events and times into actions, without a clock, processes or
// output.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/job/event.h"
#include "launcher/run/job/outcome.h"
#include "launcher/run/ranks/job_clock.h"

namespace ddp::launcher {

struct JobOptions {
  int workers = 1;
  int first_rank = 0;
  std::chrono::milliseconds grace{0};
  bool has_exit_timeout = false;  // the coordinator enforces it; without it, a note is logged
  std::vector<int> ending_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::chrono::milliseconds save_grace{0};  // 0 if the program is not asked to save
  std::vector<int> save_signals;
  bool keeps_states = false;  // of use for another attempt, or another job
};

// The phases are: running ──a failure or a signal──▶ ending (SIGTERM sent) ──grace or a second signal──▶ killing ──▶
// finished. If another attempt may follow, the workers keep their state first, for at most limits::kStateTime. Upon
// SIGINT, the workers' process groups first get SIGINT, as from a terminal, so that Python programs save
// upon KeyboardInterrupt. SIGTERM follows after the grace period, and another grace period follows SIGTERM. A signal
// within limits::kSecondRequest of the beginning of the end belongs to the first request. SIGTSTP stops the workers and
// all clocks, and SIGCONT continues both. Any end of the job continues them as well.
//
// find_culprit() determines which worker is the cause. If other ranks may know more than the first one that failed,
// they keep running until one of them reports it. The coordinator receives the failures of all nodes and may end that
// wait (Settled). A hang that is meant to end the job (HangNews) ends it like a failure.
class JobState {
 public:
  JobState(const JobOptions& options, TimePoint now);

  std::vector<Action> step(const Event& event, TimePoint now);

  // Returns when AlarmRang is wanted next, or std::nullopt if it is not wanted.
  std::optional<TimePoint> alarm() const;
  // Returns whether this signal asks the program to save and does not end the job.
  bool asks_to_save(const Event& event) const;

  std::vector<int> alive_local_ranks() const;
  // Returns whether no more workers may be started.
  bool ending() const { return phase_ != Phase::running; }
  // Returns whether the job is stopped by Ctrl-Z, so that no rank makes progress.
  bool paused() const { return clock_.stands_still(); }
  bool finished() const { return phase_ == Phase::finished; }

  // The outcome is complete once finished().
  JobOutcome outcome() const;

 private:
  enum class Phase { running, ending, killing, finished };
  struct Worker {
    pid_t pid = 0;
    bool started = false;
    bool alive = false;
    bool signalled = false;
    bool killed = false;  // the launcher has sent SIGKILL
    bool refuses_signals = false;
  };

  void handle(const WorkerStarted& event);
  void handle(const SpawnFailed& event) { end_for(event); }
  void handle(const WorkerEnd& event);
  void handle(const SignalArrived& event);
  void ask_to_save(const SignalArrived& event);
  void handle(const AlarmRang& event);
  void handle(const GuardianLost& event);
  void handle(const ConsoleClosed&) { end_for(SignalArrived{.signal = SIGPIPE, .ends_job = true}); }
  void handle(const HangNews& event);
  // Failures on this node may be secondary by then. The reported cause is the same on all nodes.
  void handle(const EndedElsewhere& event);
  void handle(const Settled& event);
  void handle(const ExitTimedOut& event) { end_for(event); }
  void handle(const StatesKept&);
  void handle(const SignalRefused& event);

  void pause();
  void resume();
  void signal_workers(int signal, SignalTarget target);
  void end_for(RootCause cause);
  void begin_ending();
  void begin_ending(RootCause cause);
  bool may_keep_states() const;
  int asked_by() const;
  void end_workers();
  void ask_to_end(int signal);
  void begin_killing(KillReason why);
  void finish_if_done();
  void finish();
  std::string describe_early_ends() const;
  std::string describe_wait() const;
  std::string describe_cause() const;
  // Sets the cause, the status and what depends on them.
  void add_cause(JobOutcome& outcome) const;
  std::vector<int> alive_ranks() const;
  int rank_of(int local_rank) const { return options_.first_rank + local_rank; }

  const JobOptions options_;
  const TimePoint start_;
  TimePoint now_;  // of the event that is handled
  std::vector<Action> actions_;
  Phase phase_ = Phase::running;
  std::vector<Worker> workers_;
  std::vector<WorkerEnd> ends_;  // in the order in which the ends were seen
  RootCause cause_;              // not set if it is a worker's failure, which `ends_` shows
  std::vector<int> asked_with_;  // SIGINT, SIGTERM or both
  bool needed_kill_ = false;
  KillReason kill_reason_ = KillReason::grace_over;
  TimePoint cause_time_;
  TimePoint end_time_;
  std::optional<wire::Knowledge> doubt_;  // set while other ranks may know more about a failure
  bool expects_signal_ = false;           // the signal that ended a worker may also be sent to the launcher
  JobClock clock_;                        // the following times are those of the job
  std::optional<JobTime> tell_at_;        // when to log what the launcher waits for
  std::optional<JobTime> escalate_at_;    // end of the grace period, then of the wait after SIGKILL
  std::optional<JobTime> note_at_;        // when to log which ranks have ended, if there is no exit timeout
  std::optional<JobTime> save_until_;
  std::optional<JobTime> keep_until_;          // set while the workers keep their state, before they are asked to end
  std::optional<SignalArrived> save_request_;  // the program was asked to save and to leave
};

}  // namespace ddp::launcher
