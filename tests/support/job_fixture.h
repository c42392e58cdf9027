// Drives a job of one node, a JobState and the coordinator, with events and a simulated clock. The names of the
// functions are terms of the domain.
#pragma once

#include <algorithm>
#include <csignal>
#include <deque>
#include <string>
#include <vector>

#include "launcher/run/job/coordinator.h"
#include "launcher/run/job/job_state.h"
#include "support/catch.h"

namespace ddp::launcher {

class JobFixture {
 public:
  static constexpr auto kGrace = std::chrono::milliseconds(5000);

  static constexpr auto kExitTimeout = std::chrono::minutes(5);

  explicit JobFixture(int workers, std::chrono::milliseconds exit_timeout = kExitTimeout)
      : state_({workers, 0, kGrace, exit_timeout.count() > 0}, now_),
        coordinator_({.exit_timeout = exit_timeout}, {.host = "a", .workers = workers}, now_),
        workers_(workers) {
    coordinator_acts(coordinator_.begin(now_));
  }

  JobFixture& start() {
    for (int i = 0; i < workers_; ++i) start_worker(i);
    return *this;
  }
  JobFixture& start_worker(int i) { return step(WorkerStarted{i, 1000 + i}); }
  JobFixture& spawn_fails(int i, int code) { return step(SpawnFailed{i, {code, "cannot start"}}); }
  JobFixture& exits(int i, int code) { return step(WorkerEnd{i, base::ExitStatus::exited(code), std::nullopt}); }
  JobFixture& killed(int i, int signal) { return step(WorkerEnd{i, base::ExitStatus::killed(signal), std::nullopt}); }
  JobFixture& exits_as_secondary(int i, int code) {
    return step(WorkerEnd{i, base::ExitStatus::exited(code), ErrorRecord{"lost a peer", true}});
  }
  JobFixture& refuses_signals(int i) { return step(SignalRefused{i}); }
  JobFixture& guardian_dies() { return step(GuardianLost{}); }
  JobFixture& console_closes() { return step(ConsoleClosed{}); }
  JobFixture& launcher_gets(int signal) {
    if (signal == SIGTSTP || signal == SIGCONT) coordinator_.set_paused(signal == SIGTSTP, now_);
    return step(SignalArrived{signal});
  }
  // Lets time pass, and rings each alarm at its time.
  JobFixture& passes(std::chrono::milliseconds duration) {
    const TimePoint end = now_ + duration;
    while (next_alarm() <= end) {
      now_ = std::max(now_, next_alarm());
      if (state_.alarm() && *state_.alarm() <= now_) step(AlarmRang{});
      if (coordinator_.alarm() <= now_) coordinator_acts(coordinator_.tick(now_));
    }
    now_ = end;
    return *this;
  }

  // Returns the signals sent to worker i so far, in order. Signals to its group have the prefix "g".
  std::string signals_to(int i) const {
    std::string text;
    for (const SendSignal& signal : sent_) {
      if (signal.local_rank != i) continue;
      if (!text.empty()) text += " ";
      text += (signal.target == SignalTarget::group ? "g" : "") + std::to_string(signal.signal);
    }
    return text;
  }

  const JobState& state() const { return state_; }
  JobOutcome outcome() const {
    REQUIRE(state_.finished());
    return state_.outcome();
  }
  const std::vector<std::string>& messages() const { return messages_; }

 private:
  TimePoint next_alarm() const { return std::min(state_.alarm().value_or(TimePoint::max()), coordinator_.alarm()); }

  // Events that are caused by an event are processed after it.
  JobFixture& step(const Event& event) {
    events_.push_back(event);
    if (events_.size() > 1) return *this;
    for (; !events_.empty(); events_.pop_front()) {
      const auto* end = std::get_if<WorkerEnd>(&events_.front());
      if (end != nullptr && end->status.success()) coordinator_hears(wire::NodeLeft{0, end->local_rank});
      for (const Action& action : state_.step(events_.front(), now_)) {
        if (const auto* signal = std::get_if<SendSignal>(&action)) sent_.push_back(*signal);
        if (const auto* line = std::get_if<LogLine>(&action)) messages_.push_back(line->text);
        if (!std::holds_alternative<ReportCause>(action)) continue;
        has_reported_ = true;
        coordinator_hears(wire::NodeFailed{0, cause_of(state_.outcome())});
      }
    }
    return *this;
  }

  void coordinator_hears(const wire::ControlMessage& message) {
    coordinator_acts(coordinator_.heard(kOwnNode, "", message, now_));
  }
  void coordinator_acts(const std::vector<CoordinatorAction>& actions) {
    for (const CoordinatorAction& action : actions) {
      const auto* send = std::get_if<SendToNode>(&action);
      const auto* ends = send == nullptr ? nullptr : std::get_if<wire::CoordinatorEnds>(&send->message);
      if (ends == nullptr) continue;
      REQUIRE((ends->cause.exit_timed_out || has_reported_));
      if (ends->cause.exit_timed_out) {
        step(ExitTimedOut{});
      } else {
        step(Settled{});
      }
    }
  }

  TimePoint now_{};
  JobState state_;
  Coordinator coordinator_;
  int workers_;
  std::deque<Event> events_;  // the first event is being processed
  bool has_reported_ = false;
  std::vector<SendSignal> sent_;
  std::vector<std::string> messages_;
};

}  // namespace ddp::launcher
