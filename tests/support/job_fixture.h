// Drives a JobState with events and a clock of its own; the words are those of the domain.
#pragma once

#include <catch2/catch.hpp>

#include <csignal>
#include <string>
#include <vector>

#include "launcher/supervise/job_state.h"

namespace ddp::launcher {

class JobFixture {
 public:
  static constexpr auto kGrace = std::chrono::milliseconds(5000);

  static constexpr auto kExitTimeout = std::chrono::minutes(5);

  explicit JobFixture(int workers, std::chrono::milliseconds exit_timeout = kExitTimeout)
      : state_({workers, 0, kGrace, exit_timeout}, now_), workers_(workers) {}

  JobFixture& start() {
    for (int i = 0; i < workers_; ++i) start_worker(i);
    return *this;
  }
  JobFixture& start_worker(int i) { return step(WorkerStarted{i, 1000 + i}); }
  JobFixture& spawn_fails(int i, int code) { return step(SpawnFailed{i, {code, "cannot start"}}); }
  JobFixture& exits(int i, int code) { return step(WorkerEnded{i, base::ExitStatus::exited(code), std::nullopt}); }
  JobFixture& killed(int i, int signal) { return step(WorkerEnded{i, base::ExitStatus::killed(signal), std::nullopt}); }
  JobFixture& exits_as_victim(int i, int code) {
    return step(WorkerEnded{i, base::ExitStatus::exited(code), ErrorRecord{"lost a peer", true}});
  }
  JobFixture& guardian_dies() { return step(GuardianLost{}); }
  JobFixture& console_closes() { return step(ConsoleClosed{}); }
  JobFixture& launcher_gets(int signal) { return step(SignalArrived{signal}); }
  // Lets time pass and rings the alarm whenever it is due.
  JobFixture& passes(std::chrono::milliseconds duration) {
    const TimePoint end = now_ + duration;
    while (state_.alarm() && *state_.alarm() <= end) {
      now_ = *state_.alarm();
      step(AlarmRang{});
    }
    now_ = end;
    return *this;
  }

  // The signals sent to worker i so far, in order; group signals have a "g" before them.
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
  const std::vector<std::string>& told() const { return told_; }
  int finishes() const { return finishes_; }

 private:
  JobFixture& step(const Event& event) {
    for (const Action& action : state_.step(event, now_)) {
      if (const auto* signal = std::get_if<SendSignal>(&action)) sent_.push_back(*signal);
      if (const auto* line = std::get_if<Tell>(&action)) told_.push_back(line->line);
      if (std::holds_alternative<Finish>(action)) ++finishes_;
    }
    return *this;
  }

  TimePoint now_{};
  JobState state_;
  int workers_;
  std::vector<SendSignal> sent_;
  std::vector<std::string> told_;
  int finishes_ = 0;
};

}  // namespace ddp::launcher
