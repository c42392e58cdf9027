// HostJobState controls a job whose launchers run on other hosts, each behind an ssh process of this launcher. It turns
// events and times into actions, without processes or a clock.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/exit_status.h"
#include "launcher/run/remote/host_plan.h"
#include "launcher/start/log/log_line.h"

namespace ddp::launcher {

struct LetBegin {};  // lets all hosts begin
struct PassSignal {
  std::size_t host;
  int signal;
};
struct EndSsh {
  std::size_t host;
};

using HostAction = std::variant<LetBegin, PassSignal, EndSsh, LogLine>;

// The phases are: preparing ──all are ready──▶ running ──one fails──▶ (the others follow by themselves, or are asked
// to) ──▶ over. Nothing is started anywhere unless every host is ready. A request to end is passed to the hosts'
// launchers, which have their own grace periods. The connections to launchers that do not end are closed after some
// time.
class HostJobState {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `plan` must outlive this.
  HostJobState(const HostPlan& plan, TimePoint now);

  // The host's launcher has read the launch request and could begin.
  std::vector<HostAction> ready(std::size_t host);
  // The host's launcher has reported its exit code.
  void said_end(std::size_t host, int exit_code) { hosts_.at(host).exit_code = exit_code; }
  // ssh has ended, and all of its output has been read.
  std::vector<HostAction> ssh_ended(std::size_t host, const base::ExitStatus& status, TimePoint now);
  // This process received a signal that concerns the job.
  std::vector<HostAction> signal_arrived(int signal, TimePoint now);
  // Must be called at alarm(), which is std::nullopt if nothing is waited for.
  std::vector<HostAction> tick(TimePoint now);
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

  void failed(int exit_code) {
    if (!exit_code_) exit_code_ = exit_code;
  }
  std::vector<HostAction> cut_all();
  std::vector<HostAction> pass(int signal);
  std::vector<HostAction> ask_to_end(int signal, TimePoint now);
  void tell(LogLevel level, std::string text) {
    actions_.emplace_back(LogLine{level, LogSource::ssh, std::move(text)});
  }
  std::vector<HostAction> take() { return std::exchange(actions_, {}); }
  std::string names_of_unready() const;

  const HostPlan& plan_;
  std::vector<Host> hosts_;
  std::vector<HostAction> actions_;
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
