// JobState: supervision as a function. Events and times in, actions out; no clock, no processes, no output.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/event.h"
#include "launcher/job/outcome.h"

namespace ddp::launcher {

struct JobOptions {
  int workers = 1;
  int first_rank = 0;
  std::chrono::milliseconds grace{0};
  bool has_exit_timeout = false;  // which the coordinator keeps; else a note is due
  std::vector<int> ending_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::chrono::milliseconds save_grace{0};  // 0: the program is not asked to save
  std::vector<int> save_signals;
};

// Running ──a failure or a signal──▶ ending (SIGTERM sent) ──grace or a second signal──▶ killing ──▶ finished.
// Upon SIGINT the workers' process groups get SIGINT first, as from a terminal, so that Python programs save upon
// KeyboardInterrupt; SIGTERM follows after the grace, and then has as long.
// A signal within limits::kSecondRequest of the beginning of the end belongs to the first request. SIGTSTP stops the
// workers and all clocks, SIGCONT continues both; whatever ends the job continues them as well.
//
// Which worker is the cause: find_culprit(). Where others may know more than the first one that failed, they are left
// alone until one of them says it, or the coordinator, which hears of all nodes' failures, ends the wait (Settled). A
// hang that is to end the job (HangNews) ends it like a failure.
class JobState {
 public:
  JobState(const JobOptions& options, TimePoint now);

  std::vector<Action> step(const Event& event, TimePoint now);

  // When AlarmRang is wanted next.
  std::optional<TimePoint> alarm() const;
  // Whether this signal asks the program to save, and does not end the job.
  bool asks_to_save(const Event& event) const;

  std::vector<int> alive_local_ranks() const;
  // No more workers are to be started.
  bool ending() const { return phase_ != Phase::running; }
  // By Ctrl-Z: nobody makes progress.
  bool paused() const { return paused_at_.has_value(); }
  bool finished() const { return phase_ == Phase::finished; }

  // Complete once finished().
  JobOutcome outcome() const;

 private:
  enum class Phase { running, ending, killing, finished };
  struct Worker {
    pid_t pid = 0;
    bool started = false;
    bool alive = false;
    bool signalled = false;
    bool killed = false;  // by us
    bool refuses_signals = false;
  };

  void handle(const WorkerStarted& event, TimePoint now, std::vector<Action>& actions);
  void handle(const SpawnFailed& event, TimePoint now, std::vector<Action>& actions) { end_for(event, now, actions); }
  void handle(const WorkerEnded& event, TimePoint now, std::vector<Action>& actions);
  void handle(const SignalArrived& event, TimePoint now, std::vector<Action>& actions);
  void ask_to_save(const SignalArrived& event, TimePoint now, std::vector<Action>& actions);
  void handle(const AlarmRang& event, TimePoint now, std::vector<Action>& actions);
  void handle(const GuardianLost& event, TimePoint now, std::vector<Action>& actions);
  void handle(const ConsoleClosed&, TimePoint now, std::vector<Action>& actions) {
    end_for(SignalArrived{SIGPIPE}, now, actions);
  }
  void handle(const HangNews& event, TimePoint now, std::vector<Action>& actions);
  // What happened here meanwhile may be a secondary failure; the reported cause is the same on all nodes.
  void handle(const EndedElsewhere& event, TimePoint now, std::vector<Action>& actions);
  void handle(const Settled& event, TimePoint now, std::vector<Action>& actions);
  void handle(const ExitTimedOut& event, TimePoint now, std::vector<Action>& actions) { end_for(event, now, actions); }
  void handle(const SignalRefused& event, TimePoint now, std::vector<Action>& actions);

  void pause(TimePoint now, std::vector<Action>& actions);
  void resume(TimePoint now, std::vector<Action>& actions);
  void signal_workers(int signal, SignalTarget target, std::vector<Action>& actions) const;
  void end_for(RootCause cause, TimePoint now, std::vector<Action>& actions);
  void begin_ending(TimePoint now, std::vector<Action>& actions);
  void begin_ending(RootCause cause, TimePoint now, std::vector<Action>& actions);
  void ask_to_end(int signal, TimePoint now, std::vector<Action>& actions);
  void begin_killing(KillReason why, TimePoint now, std::vector<Action>& actions);
  void finish_if_done(TimePoint now, std::vector<Action>& actions);
  void finish(TimePoint now, std::vector<Action>& actions);
  std::string describe_early_ends() const;
  std::string describe_wait(TimePoint now) const;
  std::string describe_cause() const;
  // Sets cause, status and what belongs to them.
  void add_cause(JobOutcome& outcome) const;
  std::vector<int> alive_ranks() const;
  int rank_of(int local_rank) const { return options_.first_rank + local_rank; }

  const JobOptions options_;
  const TimePoint start_;
  Phase phase_ = Phase::running;
  std::vector<Worker> workers_;
  std::vector<WorkerEnd> ends_;  // in the order in which they were seen
  RootCause cause_;              // unless it is a worker's failure, which the ends tell
  std::vector<int> asked_with_;  // SIGINT, SIGTERM or both
  bool needed_kill_ = false;
  KillReason kill_reason_ = KillReason::grace_over;
  TimePoint cause_time_;
  TimePoint end_time_;
  std::optional<wire::Knowledge> doubt_;  // while others may know more of a failure
  bool expects_signal_ = false;           // then: the launcher may have been sent what ended a worker
  std::optional<TimePoint> tell_at_;      // say what is waited for
  std::optional<TimePoint> escalate_at_;  // end of the grace, then of the wait after SIGKILL
  std::optional<TimePoint> note_at_;      // say who has ended and who has not, if there is no exit timeout
  std::optional<TimePoint> paused_at_;
  std::optional<SignalArrived> save_request_;  // the program was asked to save and to leave
  std::optional<TimePoint> save_until_;
};

}  // namespace ddp::launcher
