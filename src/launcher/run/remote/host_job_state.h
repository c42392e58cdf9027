// HostJobState controls the launchers on other hosts as a function. It turns events and times into actions, without
// processes or a clock.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "launcher/run/remote/host_plan.h"

namespace ddp::launcher {

// The host's launcher has read the launch request and could begin.
struct HostReady {
  std::size_t host;
};
// The host's launcher has reported its exit code.
struct HostSaidEnd {
  std::size_t host;
  int exit_code;
};
// ssh has ended, and all of its output has been read.
struct SshEnded {
  std::size_t host;
  base::ExitStatus status;
};
// This process received a signal that concerns the job.
struct SignalToAll {
  int signal;
};
struct TimeIsUp {};

using HostEvent = std::variant<HostReady, HostSaidEnd, SshEnded, SignalToAll, TimeIsUp>;

struct LetBegin {};  // lets all hosts begin
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

// The phases are: preparing ──all are ready──▶ running ──one fails──▶ (the others follow by themselves, or are asked
// to) ──▶ over. Nothing is started anywhere unless every host is ready. A request to end is passed to the hosts'
// launchers, which have their own grace periods. The connections to launchers that do not end are closed after some
// time.
class HostJobState {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `plan` must outlive this.
  HostJobState(const HostPlan& plan, TimePoint now);

  std::vector<HostAction> step(const HostEvent& event, TimePoint now);

  // Returns when TimeIsUp is wanted next, or std::nullopt if it is not wanted.
  std::optional<TimePoint> alarm() const;
  bool finished() const { return left_ == 0; }

  // Valid once finished(). Returns how this process should end. It ends like the job, whose launchers all end in the
  // same way. If a signal through this process ended the job, it ends by that signal.
  base::ExitStatus end() const;

 private:
  struct Host {
    bool ready = false;
    bool ended = false;
    bool cut = false;  // this process has closed the connection
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
  std::string names_of_unready() const;

  const HostPlan& plan_;
  std::vector<Host> hosts_;
  std::size_t left_;
  bool running_ = false;
  int asks_ = 0;  // number of requests to end
  TimePoint last_ask_;
  std::optional<int> signal_;      // first signal that requested the end
  std::optional<int> exit_code_;   // exit code of the first failure
  std::optional<TimePoint> note_;  // when to log which hosts are not ready
  std::optional<TimePoint> deadline_;
};

}  // namespace ddp::launcher
