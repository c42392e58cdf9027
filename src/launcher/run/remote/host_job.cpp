#include "launcher/run/remote/host_job.h"

#include <csignal>
#include <memory>
#include <utility>
#include <vector>

#include "base/exit_code.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/run/process/helper.h"
#include "launcher/run/process/launcher_signals.h"
#include "launcher/run/remote/host_job_state.h"
#include "launcher/run/remote/host_output.h"
#include "launcher/run/remote/remote_texts.h"

namespace ddp::launcher {
namespace {

using Clock = std::chrono::steady_clock;

class HostJob {
 public:
  HostJob(const HostPlan& plan, Log& log) : plan_(plan), log_(log), output_(loop_, plan), state_(plan, Clock::now()) {}

  base::ExitStatus run() {
    // SIGCHLD must not be ignored, because the parent reaps its children itself.
    std::signal(SIGCHLD, SIG_DFL);
    output_.on_reply = [this](std::size_t host, const LaunchReply& reply) { replied(host, reply); };
    // This is deferred, because the console is in the middle of its work.
    output_.on_room = [this] { resume_ = loop_.at(Clock::now(), [this] { resume_all(); }); };
    output_.on_closed = [this] {
      if (plan_.options.end_on_closed_console) act(state_.signal_arrived(SIGPIPE, Clock::now()));
    };
    log_.before_line([this](std::chrono::milliseconds most) { output_.before_own_line(most); });
    std::vector<int> signals = signals_to_care_for(plan_.options.ending_signals);
    std::erase(signals, SIGWINCH);
    const auto signal_watch = loop_.on_signals(signals, [this](int signal) { signal_arrived(signal); });
    if (start_all()) {
      arm();
      if (!state_.finished()) loop_.run();
      output_.end([this] { return is_interrupted(); });
    }
    log_.before_line(nullptr);
    return is_broken_ ? base::ExitStatus::exited(base::kExitOwnFault) : state_.end();
  }

 private:
  bool start_all() {
    children_.resize(plan_.starts.size());
    for (std::size_t host = 0; host < plan_.starts.size(); ++host) {
      HelperCallbacks callbacks;
      callbacks.read = [this, host](std::size_t stream, std::string_view bytes) {
        output_.take(host, static_cast<int>(stream), bytes);
      };
      callbacks.may_read = [this](std::size_t stream) { return output_.may_take(static_cast<int>(stream)); };
      callbacks.ended = [this, host](const base::ExitStatus& status) {
        output_.finish(host);
        log_.write({LogLevel::debug, LogSource::ssh, plan_.starts[host].host + ": " + status.describe()});
        act(state_.ssh_ended(host, status, Clock::now()));
      };
      log_.write({LogLevel::debug, LogSource::ssh,
                  plan_.starts[host].host + ": " + base::join(ssh_command(plan_.starts[host]), " ")});
      auto child = Helper::start(loop_, {ssh_command(plan_.starts[host]), true}, std::move(callbacks));
      if (!child) {
        log_.write({LogLevel::error, LogSource::ssh, ssh_not_started_text(child.error().message)});
        is_broken_ = true;
        return false;
      }
      children_[host] = std::move(child).value();
      children_[host]->write_line(encode(plan_.starts[host].request));
    }
    return true;
  }

  void resume_all() {
    const auto spent = std::move(resume_);
    for (const auto& child : children_) child->resume();
  }

  void replied(std::size_t host, const LaunchReply& reply) {
    if (reply.ended) state_.said_end(host, *reply.ended);
    if (reply.ready) act(state_.ready(host));
  }

  // Ctrl-Z stops the workers on the hosts, and then this process.
  void signal_arrived(int signal) {
    interrupted_ = interrupted_ || base::contains(plan_.options.ending_signals, signal);
    act(state_.signal_arrived(signal, Clock::now()));
    if (signal == SIGTSTP) std::raise(SIGSTOP);
  }

  // Returns whether another request to end has arrived, while the console is waited for.
  bool is_interrupted() {
    interrupted_ = false;
    loop_.poll();
    return interrupted_;
  }

  void act(const std::vector<HostAction>& actions) {
    for (const HostAction& action : actions) {
      std::visit([this](const auto& specific) { carry_out(specific); }, action);
    }
    arm();
    if (state_.finished()) loop_.stop();
  }

  void carry_out(const LetBegin&) {
    for (const auto& child : children_) child->write_line(encode(ControllerWord{true, 0}));
  }
  void carry_out(const PassSignal& action) {
    children_[action.host]->write_line(encode(ControllerWord{false, action.signal}));
  }
  void carry_out(const EndSsh& action) { children_[action.host]->end(); }
  void carry_out(const LogLine& line) { log_.write(line); }

  void arm() {
    alarm_.reset();
    if (const auto when = state_.alarm()) alarm_ = loop_.at(*when, [this] { act(state_.tick(Clock::now())); });
  }

  const HostPlan& plan_;
  Log& log_;
  net::EventLoop loop_;
  HostOutput output_;
  HostJobState state_;
  std::vector<std::unique_ptr<Helper>> children_;
  std::unique_ptr<net::Watch> alarm_;
  std::unique_ptr<net::Watch> resume_;
  bool interrupted_ = false;
  bool is_broken_ = false;
};

}  // namespace

base::ExitStatus run_host_job(const HostPlan& plan, Log& log) {
  return HostJob(plan, log).run();
}

}  // namespace ddp::launcher
