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

std::optional<HostJobState::TimePoint> HostJobState::alarm() const {
  if (note_ && deadline_) return std::min(*note_, *deadline_);
  return note_ ? note_ : deadline_;
}

std::vector<HostAction> HostJobState::ready(std::size_t host) {
  hosts_.at(host).ready = true;
  if (running_ || asks_ > 0 || exit_code_) return {};
  if (!std::ranges::all_of(hosts_, [](const Host& each) { return each.ready; })) return {};
  running_ = true;
  note_.reset();
  deadline_.reset();
  return {LetBegin{}};
}

std::vector<HostAction> HostJobState::ssh_ended(std::size_t which, const base::ExitStatus& status, TimePoint now) {
  Host& host = hosts_.at(which);
  host.ended = true;
  --left_;
  if (host.cut) return {};
  const HostStart& start = plan_.starts[which];
  if (!running_) {
    // Only the first failure is reported. The connections to the other hosts are closed with it.
    if (asks_ == 0 && !exit_code_)
      tell(LogLevel::error,
           host_did_not_begin_text(start.host, base::join(start.ssh, " "), start.launcher, host.exit_code, status));
    failed(host.exit_code.value_or(base::kExitOwnFault));
    return cut_all();
  }
  if (!host.exit_code) tell(LogLevel::error, host_lost_text(start.host, status));
  if (host.exit_code == 0) return {};
  // The exit code that a launcher reports takes precedence over a lost connection.
  if (host.exit_code) failed(*host.exit_code);
  // The other launchers end by themselves within this time.
  if (asks_ == 0 && !deadline_)
    deadline_ =
        now + plan_.options.node_timeout + plan_.options.save_grace + plan_.options.grace + limits::kUnkillableWait;
  return take();
}

std::vector<HostAction> HostJobState::signal_arrived(int signal, TimePoint now) {
  if (finished()) return {};
  const bool is_request = signal == SIGPIPE || base::contains(plan_.options.ending_signals, signal);
  if (!is_request) return running_ ? pass(signal) : take();
  // As on one node, signals close together are one request.
  if (asks_ > 0 && now - last_ask_ < limits::kSecondRequest) return {};
  if (!signal_) signal_ = signal;
  if (!running_ || asks_ >= 2) return cut_all();
  // A console that is closed concerns only this process. The launchers on the hosts do not know SIGPIPE as a request.
  return ask_to_end(signal == SIGPIPE ? SIGTERM : signal, now);
}

std::vector<HostAction> HostJobState::tick(TimePoint now) {
  if (finished()) return {};
  if (note_ && now >= *note_) {
    note_.reset();
    tell(LogLevel::note, waiting_for_hosts_text(names_of_unready()));
  }
  if (!deadline_ || now < *deadline_) return take();
  deadline_.reset();
  if (!running_) {
    tell(LogLevel::error, hosts_too_late_text(names_of_unready(), kReadyWithin));
    failed(base::kExitOwnFault);
    return cut_all();
  }
  return asks_ == 0 ? ask_to_end(SIGTERM, now) : cut_all();
}

std::vector<HostAction> HostJobState::cut_all() {
  note_.reset();
  deadline_.reset();
  if (asks_ == 0) asks_ = 1;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (hosts_[i].ended) continue;
    hosts_[i].cut = true;
    actions_.emplace_back(EndSsh{i});
  }
  return take();
}

std::vector<HostAction> HostJobState::pass(int signal) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (!hosts_[i].ended) actions_.emplace_back(PassSignal{i, signal});
  }
  return take();
}

std::vector<HostAction> HostJobState::ask_to_end(int signal, TimePoint now) {
  ++asks_;
  last_ask_ = now;
  // Upon the first request, the launchers give their workers the grace period, after SIGINT and again after SIGTERM.
  // Upon the second request, they send SIGKILL.
  const int graces = asks_ > 1 ? 0 : signal == SIGINT ? 2 : 1;
  deadline_ = now + limits::kUnkillableWait + plan_.options.save_grace + graces * plan_.options.grace;
  return pass(signal);
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
