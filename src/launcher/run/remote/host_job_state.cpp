#include "launcher/run/remote/host_job_state.h"

#include <algorithm>
#include <csignal>

#include "base/exit_code.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/remote/remote_texts.h"

namespace ddp::launcher {
namespace {

// All hosts must be ready within this time.
constexpr std::chrono::milliseconds kReadyWithin = limits::kDefaultJoinTimeout;

}  // namespace

HostJobState::HostJobState(const HostPlan& plan, TimePoint now)
    : plan_(plan), hosts_(plan.starts.size()), left_(hosts_.size()) {
  note_ = now + limits::kHostFirstWord;
  deadline_ = now + kReadyWithin;
}

std::vector<HostAction> HostJobState::step(const HostEvent& event, TimePoint now) {
  std::vector<HostAction> actions;
  if (finished()) return actions;
  std::visit([&](const auto& specific) { handle(specific, now, actions); }, event);
  return actions;
}

std::optional<HostJobState::TimePoint> HostJobState::alarm() const {
  if (note_ && deadline_) return std::min(*note_, *deadline_);
  return note_ ? note_ : deadline_;
}

void HostJobState::handle(const HostReady& event, TimePoint, std::vector<HostAction>& actions) {
  hosts_.at(event.host).ready = true;
  if (running_ || asks_ > 0 || exit_code_) return;
  if (!std::ranges::all_of(hosts_, [](const Host& host) { return host.ready; })) return;
  running_ = true;
  note_.reset();
  deadline_.reset();
  actions.emplace_back(LetBegin{});
}

void HostJobState::handle(const HostSaidEnd& event, TimePoint, std::vector<HostAction>&) {
  hosts_.at(event.host).exit_code = event.exit_code;
}

void HostJobState::handle(const SshEnded& event, TimePoint now, std::vector<HostAction>& actions) {
  Host& host = hosts_.at(event.host);
  host.ended = true;
  --left_;
  if (host.cut) return;
  if (!running_) {
    // Only the first failure is reported. The connections to the other hosts are closed with it.
    if (asks_ == 0 && !exit_code_) {
      const HostStart& start = plan_.starts[event.host];
      actions.emplace_back(TellOfHost{host_did_not_begin_text(start.host, base::join(start.ssh, " "), start.launcher,
                                                              host.exit_code, event.status)});
    }
    failed(host.exit_code.value_or(base::kExitOwnFault));
    return cut_all(actions);
  }
  if (!host.exit_code) actions.emplace_back(TellOfHost{host_lost_text(plan_.starts[event.host].host, event.status)});
  if (host.exit_code == 0) return;
  // The exit code that a launcher reports takes precedence over a lost connection.
  if (host.exit_code) failed(*host.exit_code);
  // The other launchers end by themselves within this time.
  if (asks_ == 0 && !deadline_)
    deadline_ = now + plan_.node_timeout + plan_.save_grace + plan_.grace + limits::kUnkillableWait;
}

void HostJobState::handle(const SignalToAll& event, TimePoint now, std::vector<HostAction>& actions) {
  const bool is_request = event.signal == SIGPIPE || base::contains(plan_.ending_signals, event.signal);
  if (!is_request) {
    if (running_) pass(event.signal, actions);
    return;
  }
  // As on one node, signals close together are one request.
  if (asks_ > 0 && now - last_ask_ < limits::kSecondRequest) return;
  if (!signal_) signal_ = event.signal;
  if (!running_ || asks_ >= 2) return cut_all(actions);
  // A console that is closed concerns only this process. The launchers on the hosts do not know SIGPIPE as a request.
  ask_to_end(event.signal == SIGPIPE ? SIGTERM : event.signal, now, actions);
}

void HostJobState::handle(const TimeIsUp&, TimePoint now, std::vector<HostAction>& actions) {
  if (note_ && now >= *note_) {
    note_.reset();
    actions.emplace_back(TellOfHost{waiting_for_hosts_text(names_of_unready()), false});
  }
  if (!deadline_ || now < *deadline_) return;
  deadline_.reset();
  if (!running_) {
    actions.emplace_back(TellOfHost{hosts_too_late_text(names_of_unready(), kReadyWithin)});
    failed(base::kExitOwnFault);
    cut_all(actions);
  } else if (asks_ == 0) {
    ask_to_end(SIGTERM, now, actions);
  } else {
    cut_all(actions);
  }
}

void HostJobState::cut_all(std::vector<HostAction>& actions) {
  note_.reset();
  deadline_.reset();
  if (asks_ == 0) asks_ = 1;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].ended) continue;
    hosts_[i].cut = true;
    actions.emplace_back(EndSsh{i});
  }
}

void HostJobState::pass(int signal, std::vector<HostAction>& actions) const {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].ended) actions.emplace_back(PassSignal{i, signal});
  }
}

void HostJobState::ask_to_end(int signal, TimePoint now, std::vector<HostAction>& actions) {
  ++asks_;
  last_ask_ = now;
  // Upon the first request, the launchers give their workers the grace period, after SIGINT and again after SIGTERM.
  // Upon the second request, they send SIGKILL.
  const int graces = asks_ > 1 ? 0 : signal == SIGINT ? 2 : 1;
  deadline_ = now + limits::kUnkillableWait + plan_.save_grace + graces * plan_.grace;
  pass(signal, actions);
}

std::string HostJobState::names_of_unready() const {
  constexpr std::size_t kMostNames = 8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].ready) names.push_back(plan_.starts[i].host);
  }
  const std::size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  return base::join(names, ", ") + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

base::ExitStatus HostJobState::end() const {
  // The launchers may have ended before, for another reason.
  const bool by_signal = signal_ && (!exit_code_ || *exit_code_ == 128 + *signal_ ||
                                     (*signal_ == SIGPIPE && *exit_code_ == 128 + SIGTERM));
  const bool all_succeeded = std::ranges::all_of(hosts_, [](const Host& host) { return host.exit_code == 0; });
  if (all_succeeded) return base::ExitStatus::exited(0);
  if (by_signal) return base::ExitStatus::killed(*signal_);
  return base::ExitStatus::exited(exit_code_.value_or(base::kExitOwnFault));
}

}  // namespace ddp::launcher
