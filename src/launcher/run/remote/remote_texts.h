// All messages about the hosts of a job (ddplaunch --hosts) and of the launchers that are started there.
#pragma once

#include <ddp/version.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/exit_code.h"
#include "base/exit_status.h"
#include "base/text.h"

namespace ddp::launcher {

// Options that cannot be combined. `option` is --hosts or --hostfile.

inline std::string other_node_count_text(const std::string& option, int hosts) {
  return option + " has " + base::counted(hosts, "host") +
         ", but --nnodes is another number. Leave --nnodes out, because each host is a node.";
}
inline std::string with_node_rank_text(const std::string& option) {
  return option +
         " and --node-rank cannot be combined, because hosts are numbered in their order. Leave --node-rank out.";
}
inline std::string with_standalone_text(const std::string& option) {
  return option + " and --standalone cannot be combined, because --standalone means one node. Leave one out.";
}
inline std::string with_local_addr_text(const std::string& option) {
  return option +
         " and --local-addr cannot be combined, because all hosts would announce the same address. Use --master-addr "
         "for "
         "the address of the first host.";
}
inline std::string with_stdin_text(const std::string& option) {
  return option +
         " and --stdin cannot be combined, because the launchers on the hosts read commands from their standard input. "
         "Leave --stdin out.";
}
inline std::string within_scheduler_text(const std::string& option, const std::string& scheduler,
                                         const std::string& derived) {
  return option + " cannot be used within " + scheduler + ", which has started launchers on " + derived +
         " already. Leave " + option +
         " out, or start ddplaunch once, outside of it (--scheduler=none if this is wrong).";
}

// What the user's node lacks before the hosts are reached.

inline std::string host_file_unreadable_text(const std::string& path, const std::string& reason) {
  return "--hostfile=" + path + ": the file cannot be read (" + reason + "). Check its name.";
}
inline std::string host_file_mistake_text(const std::string& path, const std::string& mistake) {
  return "--hostfile=" + path + ": " + mistake;
}
inline std::string host_file_empty_text(const std::string& path) {
  return "--hostfile=" + path + " names no host.";
}
inline std::string no_variable_text(const std::string& name) {
  return "--forward-env=" + name +
         ": there is no such variable here. Set it, or give its value: --forward-env=" + name + "=VALUE.";
}
inline std::string zero_in_token_text(const std::string& path) {
  return "--auth-token-file=" + path +
         ": the token has a zero byte, which cannot be passed on to hosts. Use another one.";
}
inline std::string no_directory_text(const std::string& reason) {
  return "the working directory no longer exists (" + reason + "). Change into another one.";
}
inline std::string no_executable_text(const std::string& reason) {
  return "cannot determine the path of ddplaunch (" + reason + "). Is /proc mounted?";
}

// Hosts on which no launcher starts, or that are lost.

// `exit_code` is what the launcher there has reported, and `status` is how ssh has ended.
inline std::string host_did_not_begin_text(const std::string& host, const std::string& ssh, const std::string& launcher,
                                           std::optional<int> exit_code, const base::ExitStatus& status) {
  constexpr int kSshFailed = 255;  // the exit code of ssh if it fails itself
  const std::string end = "; no worker was started on any host";
  const auto has_exited = [&](int code) { return status == base::ExitStatus::exited(code); };
  if (exit_code) {
    return host + ": its launcher could not start (exit code " + std::to_string(*exit_code) + ") for the reason above" +
           end;
  }
  if (has_exited(kSshFailed)) {
    return host + " cannot be reached over ssh" + end + ". This must work without a password: " + ssh + " true";
  }
  if (has_exited(base::kExitNotFound) || has_exited(base::kExitNotExecutable)) {
    return host + ": " + launcher + " cannot be executed there" + end +
           ". Install ddplaunch there, or give its path with --remote-launcher=PATH";
  }
  return host + ": ssh exited before its launcher answered (" + status.describe() + ")" + end +
         ". To find the cause, run: " + ssh + " " + launcher + " --version";
}
inline std::string ssh_not_started_text(const std::string& reason) {
  return reason + ". No worker was started";
}
inline std::string waiting_for_hosts_text(const std::string& hosts) {
  return "waiting for " + hosts + " to answer";
}
inline std::string hosts_too_late_text(const std::string& hosts, std::chrono::nanoseconds limit) {
  return hosts + " did not answer within " + base::human_duration(limit) + ". No worker was started";
}
inline std::string host_lost_text(const std::string& host, const base::ExitStatus& status) {
  return "the connection to " + host + " is lost (ssh: " + status.describe() +
         "); its launcher terminates its workers on its own";
}
inline constexpr const char* kEarlyOutputText = "further output before its launcher starts is not shown";

// What the launcher on a host reports.

inline constexpr const char* kOnTerminalText =
    "only ddplaunch --hosts starts ddplaunch on-host, over ssh. To start a program of that name, write ./on-host or "
    "its "
    "path.";
inline constexpr const char* kNoRequestText =
    "the standard input contains no launch request of ddplaunch --hosts, which alone starts ddplaunch on-host.";
inline constexpr const char* kInputEndedText =
    "the standard input ended before a launch request of ddplaunch --hosts arrived. Check whether the configuration of "
    "ssh (StdinNull, ForkAfterAuthentication) or a start file of the shell reads it.";
inline std::string no_input_text(const std::string& reason) {
  return "cannot take over the standard input: " + reason;
}
inline std::string other_version_text(const std::string& version) {
  return "the launcher that started this one is ddplaunch " + version +
         " and sends launch requests that ddplaunch " DDP_VERSION_STRING
         " cannot read. Install the same version here, or name it with --remote-launcher.";
}
inline std::string no_directory_on_host_text(const std::string& directory, const std::string& host,
                                             const std::string& reason) {
  return "cannot change into the working directory " + directory + " on host " + host + ": " + reason +
         ". Create it there, or start the job from a directory that all hosts have.";
}

}  // namespace ddp::launcher
