// HostJobState: the launchers on other hosts as a function. Events and times in, actions out; no processes, no clock.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "launcher/remote/host_plan.h"

namespace ddp::launcher {

// Its launcher has read the launch request and could begin.
struct HostReady {
  std::size_t host;
};
// Its launcher's last word.
struct HostSaidEnd {
  std::size_t host;
  int exit_code;
};
// ssh has ended, and all that it had to say has been read.
struct SshEnded {
  std::size_t host;
  base::ExitStatus status;
};
// Somebody wants something of the job: a signal to us.
struct SignalToAll {
  int signal;
};
struct TimeIsUp {};

using HostEvent = std::variant<HostReady, HostSaidEnd, SshEnded, SignalToAll, TimeIsUp>;

struct LetBegin {};  // all of them
struct PassSignal {
  std::size_t host;
  int signal;
};
struct EndSsh {
  std::size_t host;
};
struct TellOfHost {
  std::string line;
  bool is_error = true;
};

using HostAction = std::variant<LetBegin, PassSignal, EndSsh, TellOfHost>;

// preparing ──all are ready──▶ running ──one fails──▶ (the others follow by themselves, or are asked to) ──▶ over
// Nothing is started anywhere unless every host is ready. Whoever asks for the end gets it by the hosts' launchers,
// which have their own graces; those that do not hear are cut off at the end of a time.
class HostJobState {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `plan` must outlive this.
  HostJobState(const HostPlan& plan, TimePoint now);

  std::vector<HostAction> step(const HostEvent& event, TimePoint now);

  // When TimeIsUp is wanted next.
  std::optional<TimePoint> alarm() const;
  bool finished() const { return left_ == 0; }

  // Once finished(): how this process should end. As the job, whose launchers end alike; by the signal that ended it,
  // if that came through here.
  base::ExitStatus end() const;

 private:
  struct Host {
    bool ready = false;
    bool ended = false;
    bool cut = false;  // by us
    std::optional<int> exit_code;
  };

  void handle(const HostReady& event, TimePoint now, std::vector<HostAction>& actions);
  void handle(const HostSaidEnd& event, TimePoint now, std::vector<HostAction>& actions);
  void handle(const SshEnded& event, TimePoint now, std::vector<HostAction>& actions);
  void handle(const SignalToAll& event, TimePoint now, std::vector<HostAction>& actions);
  void handle(const TimeIsUp& event, TimePoint now, std::vector<HostAction>& actions);

  void failed(int exit_code) {
    if (!exit_code_) exit_code_ = exit_code;
  }
  void cut_all(std::vector<HostAction>& actions);
  void pass(int signal, std::vector<HostAction>& actions) const;
  void ask_to_end(int signal, TimePoint now, std::vector<HostAction>& actions);
  std::string why_it_did_not_begin(std::size_t host, const base::ExitStatus& status) const;
  std::string names_of_unready() const;

  const HostPlan& plan_;
  std::vector<Host> hosts_;
  std::size_t left_;
  bool running_ = false;
  int asks_ = 0;  // to end
  TimePoint last_ask_;
  std::optional<int> signal_;      // that asked for the end first
  std::optional<int> exit_code_;   // of the first that failed and said so
  std::optional<TimePoint> note_;  // say who is waited for
  std::optional<TimePoint> deadline_;
};

}  // namespace ddp::launcher
