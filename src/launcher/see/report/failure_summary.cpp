#include "launcher/see/report/failure_summary.h"

#include <ddp/version.h>

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "base/printable.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/run/ranks/root_causes.h"
#include "launcher/run/watchdog/verdict_text.h"
#include "launcher/see/report/hang_report.h"
#include "launcher/start/causes/cause_table.h"
#include "launcher/start/plan/used_gpu.h"
#include "launcher/start/plan/worker_variables.h"
#include "net/address.h"

namespace ddp::launcher {
namespace {

// Docker and Kubernetes give a container 64 MiB. NCCL and data loaders need more, and less than this.
constexpr std::uint64_t kSmallSharedMemory = std::uint64_t{1} << 30;

// Each entry is a list of words that a line about too little shared memory contains.
constexpr std::array<std::array<std::string_view, 2>, 5> kSharedMemoryErrors{{
    {"out of shared memory", ""},        // PyTorch's data loader
    {"insufficient shared memory", ""},  // its worker
    {"shared memory", "No space left"},  // NCCL
    {"/dev/shm", "No space left"},
    {"/torch_", "No space left on device"}  // a tensor that PyTorch shares
}};

constexpr std::size_t kMessageLines = 10;
constexpr std::size_t kMessageBytes = 2000;  // of all lines
constexpr const char* kLeftOut = "…";
constexpr const char* kQuote = "  | ";
constexpr std::string_view kMissingModule = "missing-module";  // a known error

// Returns the size to which the lines must be cut, so that all of them have at most kMessageBytes. Short lines stay
// whole, because only the long ones are cut.
std::size_t longest_that_fits(const std::vector<std::string>& lines) {
  std::vector<std::size_t> sizes;
  for (const std::string& line : lines) sizes.push_back(line.size());
  std::ranges::sort(sizes);
  std::size_t left = kMessageBytes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t share = left / (sizes.size() - i);
    if (sizes[i] > share) return share;
    left -= sizes[i];
  }
  return kMessageBytes;
}

// Quotes another program's text, cut to a few lines and made safe for a terminal. The first lines name the error, and
// the last ones are the program's own, so lines in the middle are left out.
std::vector<std::string> quote(const std::string& message) {
  std::vector<std::string> lines;
  for (const std::string& line : base::split(message, '\n')) {
    if (!line.empty()) lines.push_back(base::printable(line, kMessageBytes));
  }
  if (lines.size() > kMessageLines) {
    const auto half = static_cast<std::ptrdiff_t>(kMessageLines / 2);
    *lines.erase(lines.begin() + half, lines.end() - half - 1) = kLeftOut;
  }
  const std::size_t most = longest_that_fits(lines);
  for (std::string& line : lines) line = kQuote + base::printable(line, most);
  return lines;
}

bool contains_all(const std::vector<std::string>& printed, const std::vector<std::string>& quoted) {
  return std::ranges::all_of(quoted, [&](const std::string& line) {
    std::string words = line.substr(std::string_view(kQuote).size());
    // The library writes the kind of an error into its record; programs that print what() do not.
    if (words.starts_with("ddp::Error (")) words.erase(0, words.find("): ") + 3);
    return words == kLeftOut || std::ranges::any_of(printed, [&](const std::string& other) {
             return other.find(words) != std::string::npos;
           });
  });
}

std::string gpu_of(const LaunchPlan& plan, int local_rank) {
  const auto index = static_cast<std::size_t>(local_rank);
  return index < plan.devices.size() ? plan.devices[index].value_or("") : "";
}

std::string describe_oom(const OomKill& oom) {
  std::string text = "the kernel's out-of-memory killer killed it";
  if (oom.where.empty()) return text + ", because the node or an outer container had no memory left";
  text += " in cgroup " + oom.where;
  if (oom.limit_bytes > 0) text += ", limit " + base::human_bytes(oom.limit_bytes);
  if (oom.peak_bytes > 0) text += ", peak " + base::human_bytes(oom.peak_bytes);
  return text;
}

std::string why_killed_hint(const WorkerEnd& end) {
  if (end.status.was_killed_by(SIGTERM) && !end.after_signal) {
    return "  ddplaunch did not send SIGTERM; an operator, a resource manager or the program itself did";
  }
  if (end.status.was_killed_by(SIGXFSZ)) return "  it wrote a file larger than its limit (ulimit -f) allows";
  if (!end.status.was_killed_by(SIGKILL)) return "";
  const std::string peak = end.peak_rss_bytes > 0 ? "; its peak was " + base::human_bytes(end.peak_rss_bytes) : "";
  if (end.oom) return "  " + describe_oom(*end.oom) + peak;
  if (end.is_injected) return "  ddplaunch killed it (--inject)";
  return "  ddplaunch did not send SIGKILL; an operator, a resource manager or a memory limit that is not visible here "
         "did" +
         peak;
}

std::string name_of(const WorkerEnd& end) {
  return "rank " + std::to_string(end.rank) + " (pid " + std::to_string(end.pid) + ")";
}

std::string culprit_line(const WorkerEnd& end, const std::string& when) {
  if (end.status.success()) return name_of(end) + " exited too early, with exit code 0, " + when;
  if (!end.is_our_doing()) return name_of(end) + " failed: " + end.status.describe() + ", " + when;
  return name_of(end) + " failed with an error, " + when + "; ddplaunch terminated it before it exited";
}

// Describes the end of a rank that is not to blame.
std::string secondary_line(const WorkerEnd& end, const std::string& when) {
  const std::string how = end.status.describe() + ", " + when;
  return end.gave_up() ? name_of(end) + " gave up waiting: " + how
                       : name_of(end) + " detected it and terminated: " + how;
}

// Describes the loss of a rank that lost another one, if no rank is known to have failed by itself.
std::string whom_it_lost(const WorkerEnd& end, const JobOutcome& outcome) {
  if (!outcome.left_early.empty()) {
    return "it lost another rank: " + base::ranks_text(outcome.left_early) + " had already exited with code 0";
  }
  if (end.error->had_own_error) return "it lost another rank or left the group while it handled this error";
  if (!end.error->peer) return "it lost another rank, but no rank failed on its own";
  const int peer = *end.error->peer;
  const bool still_ran = std::ranges::count(outcome.ended_ranks, peer) > 0;
  return "it lost rank " + std::to_string(peer) +
         (still_ran ? ", which was still running" : ", but no rank failed on its own");
}

// Returns whether the console has shown the worker's traceback, so that the end of it is enough.
bool has_shown_traceback(const WorkerEnd& end, const LaunchPlan& plan, const FailureEvidence& evidence) {
  const auto index = static_cast<std::size_t>(end.local_rank);
  return end.error && index < plan.output.workers.size() && plan.output.workers[index].err.to_console &&
         std::ranges::any_of(evidence.last_lines,
                             [](const std::string& line) { return line.find(kTracebackBegin) != std::string::npos; });
}

// Returns the place in a Python program where the worker failed, or an empty string if it is unknown.
const std::string& place_of(const WorkerEnd& end) {
  return end.error && !end.error->place.empty() ? end.error->place : end.crash_place;
}

// Returns where the ranks were whose calls differ. The culprit's place is not listed, because `at` shows it.
std::vector<std::string> places_of_blamed(const Verdict& verdict, const JobOutcome& outcome, int culprit) {
  std::vector<std::string> lines;
  for (const WorkerEnd& end : outcome.ends) {
    if (end.rank == culprit || !verdict.blames(end.rank) || place_of(end).empty()) continue;
    lines.push_back("  rank " + std::to_string(end.rank) + " was at " + base::printable(place_of(end)));
  }
  return lines;
}

// Quotes the worker's own error message, unless the headline has explained it, and names its place. Text that the
// worker has also printed is not repeated.
void quote_culprit(const WorkerEnd& end, bool is_explained, bool has_shown, const FailureEvidence& evidence,
                   std::vector<std::string>& lines) {
  const std::vector<std::string> error = end.error ? quote(end.error->message) : std::vector<std::string>();
  if (!is_explained && (has_shown || !contains_all(evidence.last_lines, error))) {
    lines.emplace_back("  its error:");
    base::append(lines, error);
  }
  if (!place_of(end).empty()) lines.push_back("  at " + base::printable(place_of(end)));
  if (is_explained || has_shown || evidence.last_lines.empty()) return;
  lines.emplace_back("  its last lines:");
  for (const std::string& line : evidence.last_lines) lines.push_back(kQuote + line);
}

// Returns the known error that the worker shows, or null. Its own error message is more certain than its output, in
// which an error before the last traceback may be one that it has caught.
const Cause* known_error(const WorkerEnd& end, const std::vector<std::string>& last_lines) {
  if (end.error) {
    if (const Cause* cause = find_cause_in(base::split(end.error->message, '\n'))) return cause;
  }
  const auto traceback = std::find_if(last_lines.rbegin(), last_lines.rend(), [](const std::string& line) {
    return line.find(kTracebackBegin) != std::string::npos;
  });
  return find_cause_in(
      {traceback == last_lines.rend() ? last_lines.begin() : std::prev(traceback.base()), last_lines.end()});
}

// Returns the cause and the remedy of a known error. The summary itself says which rank was lost.
std::vector<std::string> lines_of(const Cause* cause, const LaunchPlan& plan) {
  if (cause == nullptr || cause->proof == Proof::lost_peer) return {};
  const std::string program = cause->id == kMissingModule ? " (the workers ran " + plan.program + ")" : "";
  return {"  cause: " + std::string(cause->cause), "  try: " + std::string(cause->remedy) + program};
}

std::vector<std::string> memory_lines(const FailureEvidence& evidence, const std::string& node) {
  std::vector<std::string> lines;
  if (evidence.gpu_memory) lines = gpu_memory_lines(*evidence.gpu_memory);
  if (evidence.shared_memory) lines.push_back(shared_memory_line(*evidence.shared_memory, node));
  for (std::string& line : lines) line.insert(0, "  ");
  return lines;
}

void describe_culprit(const WorkerFailed& failed, const JobOutcome& outcome, const LaunchPlan& plan,
                      const FailureEvidence& evidence, std::vector<std::string>& lines) {
  const WorkerEnd& end = failed.end;
  const std::string when = base::human_duration(outcome.run_time) + " after the start";
  const bool is_secondary = failed.verdict && !failed.verdict->blames(end.rank);
  if (is_secondary) {
    lines.insert(lines.end(), {hang_headline(*failed.verdict), "  " + secondary_line(end, when)});
  } else {
    lines.push_back(culprit_line(end, when));
    if (failed.verdict) lines.push_back("  " + hang_headline(*failed.verdict));
  }
  if (failed.verdict) {
    base::append(lines, difference_lines(*failed.verdict));
    base::append(lines, places_of_blamed(*failed.verdict, outcome, end.rank));
  }
  const std::string device = used_gpu(plan, end.local_rank, end.gpu_uuid);
  const std::string& node = evidence.node.empty() ? plan.host_name : evidence.node;
  lines.push_back("  node " + node + (device.empty() ? "" : ", GPU " + device) + ", program " +
                  (plan.what.empty() ? plan.program : plan.what));
  if (const std::string hint = why_killed_hint(end); !hint.empty()) lines.push_back(hint);
  if (!evidence.core.empty()) lines.push_back("  core: " + evidence.core);
  const bool is_named_by_difference = failed.verdict && differs(failed.verdict->kind);
  if (end.is_secondary() && !is_named_by_difference) lines.push_back("  " + whom_it_lost(end, outcome));
  // The headline of a mismatch contains everything that the culprit's own error does.
  const bool is_explained = end.error && end.error->is_mismatch && failed.verdict && failed.verdict->is_described();
  quote_culprit(end, is_explained, has_shown_traceback(end, plan, evidence), evidence, lines);
  if (evidence.gpu_memory || evidence.shared_memory) {
    base::append(lines, memory_lines(evidence, node));
  } else if (!is_explained) {
    base::append(lines, lines_of(known_error(end, evidence.last_lines), plan));
  }
  if (!evidence.log_file.empty()) lines.push_back("  log: " + evidence.log_file);
}

// Returns when SIGKILL followed SIGTERM.
std::string when_killed(const JobOutcome& outcome, const LaunchPlan& plan) {
  if (outcome.kill_reason == KillReason::grace_over)
    return "after the grace period of " + base::human_duration(plan.grace);
  if (outcome.kill_reason == KillReason::guardian_lost) return "when the first process of ddplaunch was killed";
  const auto* elsewhere = outcome.cause_as<EndedElsewhere>();
  const bool is_second =
      outcome.cause_as<SignalArrived>() != nullptr || (elsewhere != nullptr && elsewhere->cause.signal != 0);
  return is_second ? "on a second request" : "when ddplaunch was asked to stop";
}

void describe_others(const JobOutcome& outcome, const LaunchPlan& plan, const FailureEvidence& evidence,
                     std::vector<std::string>& lines) {
  for (const WorkerEnd& end : outcome.also_failed) {
    const bool secondary = end.error && end.error->is_secondary;
    lines.push_back("  rank " + std::to_string(end.rank) + (secondary ? " failed because of it: " : " failed too: ") +
                    end.status.describe());
  }
  if (!outcome.ended_ranks.empty()) {
    std::vector<std::string> signals;
    for (const int signal : outcome.asked_with) signals.push_back(base::signal_name(signal));
    if (outcome.needed_kill) signals.push_back("SIGKILL " + when_killed(outcome, plan));
    const std::string how =
        outcome.cause_as<GuardianLost>() != nullptr ? "SIGKILL at once" : base::join(signals, ", then ");
    lines.push_back("  " + base::ranks_text(outcome.ended_ranks, "was", "were") + " terminated because of it (" + how +
                    ", gone in " + base::human_duration(outcome.ending_time) + ")");
  }
  if (!outcome.not_started.empty() && outcome.cause_as<SpawnFailed>() == nullptr && !lines.empty()) {
    lines.push_back("  " + base::ranks_text(outcome.not_started) + " had not been started yet");
  }
  for (const RankAndPid& worker : outcome.unkillable) {
    const std::string pid = std::to_string(worker.pid);
    const std::string why = evidence.of_other_users.contains(worker.pid)
                                ? ") cannot be terminated: it now runs as another user (ps -o user= -p " + pid +
                                      "), whose processes the launcher may not signal. Terminate it as that user"
                                : ") survives SIGKILL: it is stuck in the kernel. See /proc/" + pid +
                                      "/status and wchan; it may hold its GPU until it exits";
    lines.push_back("  rank " + std::to_string(worker.rank) + " (pid " + pid + why);
  }
  if (!outcome.leftovers.empty()) {
    lines.push_back(
        "  " + base::counted(std::ssize(outcome.leftovers), "other process") +
        " of the job cannot be killed, the first with pid " + std::to_string(outcome.leftovers.front()) +
        (evidence.of_other_users.contains(outcome.leftovers.front()) ? ", which runs as another user" : ""));
  }
}

}  // namespace

std::optional<SharedMemory> read_shared_memory(const std::string& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return std::nullopt;
  return SharedMemory{std::uint64_t{status.f_blocks} * status.f_frsize,
                      std::uint64_t{status.f_bavail} * status.f_frsize};
}

bool may_lack_shared_memory(const base::ExitStatus& status, const std::vector<std::string>& last_lines) {
  if (status.was_killed_by(SIGBUS)) return true;
  return std::ranges::any_of(last_lines, [](const std::string& line) {
    return std::ranges::any_of(kSharedMemoryErrors, [&](const auto& words) {
      return std::ranges::all_of(words, [&](std::string_view word) { return line.find(word) != std::string::npos; });
    });
  });
}

std::string shared_memory_line(const SharedMemory& memory, const std::string& node) {
  const std::string size = "/dev/shm of " + node + " has " + base::human_bytes(memory.total) + ", of which " +
                           base::human_bytes(memory.free) + " are free now";
  if (memory.total >= kSmallSharedMemory && memory.free >= kSmallSharedMemory) {
    return size + "; a worker also gets SIGBUS if a file that it has mapped becomes shorter, or on a memory fault";
  }
  return size +
         ". A worker that needs more shared memory gets SIGBUS. Enlarge it (docker run --shm-size=8g, or mount "
         "-o remount,size=8g /dev/shm)";
}

std::optional<std::string> interface_line(const LaunchPlan& plan, const std::string& interface) {
  const std::vector<std::string> names = interface_variables(plan, interface);
  if (names.empty()) return std::nullopt;
  return base::join(names, " and ") + base::plural(names.size(), " is ", " are ") + "set to " + interface +
         ", which leads to the first node; export " + base::plural(names.size(), "it", "them") + " to override";
}

std::string start_line(const LaunchPlan& plan, const Placement& placement) {
  std::vector<std::string> devices;
  for (int i = 0; i < plan.workers; ++i) {
    const std::string device = gpu_of(plan, i);
    if (!device.empty() && (devices.empty() || devices.back() != device)) devices.push_back(device);
  }
  const std::string no_gpu = plan.has_uncounted_gpus ? "" : " (no GPU)";
  return std::string(DDP_VERSION_STRING) + "  " + base::counted(plan.workers, "worker") + " on node " +
         node_name(plan.host_name, placement) +
         (!devices.empty() ? " (GPU " + base::join(devices, ", ") + ")" : no_gpu) + ", store " +
         net::host_and_port(placement.master_addr, placement.master_port);
}

std::vector<std::string> failure_summary(const JobOutcome& outcome, const LaunchPlan& plan,
                                         const FailureEvidence& evidence) {
  std::vector<std::string> lines;
  const std::string when = base::human_duration(outcome.run_time);
  if (outcome.has_saved) {
    lines.push_back("the program saved and exited as requested, " + when +
                    " after the start; start the job again to continue (exit code 75)");
  }
  if (const auto* failed = outcome.cause_as<WorkerFailed>()) {
    describe_culprit(*failed, outcome, plan, evidence, lines);
  } else if (const auto* hang = outcome.cause_as<HangNews>()) {
    const auto began = std::max(outcome.run_time - hang->age, std::chrono::nanoseconds(0));
    lines.push_back("the job hung " + base::human_duration(began) + " after the start, and was terminated " +
                    base::human_duration(outcome.run_time - began) + " later: " + hang_headline(hang->verdict));
    const bool is_silent = hang->verdict.kind == VerdictKind::silent;
    if (const auto odd = is_silent ? find_odd_ranks(hang->ranks) : std::vector<int>(); !odd.empty()) {
      lines.push_back("  " + base::ranks_text(odd, "waits", "wait") + " neither for a message nor for another thread");
    }
  } else if (outcome.cause_as<ExitTimedOut>() != nullptr) {
    lines.push_back(base::ranks_text(outcome.ended_ranks, "was", "were") + " still running " +
                    base::human_duration(plan.exit_timeout) + " after " + base::ranks_text(outcome.left_early) +
                    " exited with code 0 (--exit-timeout)");
  } else if (outcome.cause_as<GuardianLost>() != nullptr) {
    lines.emplace_back("the first process of ddplaunch was killed, so the job was terminated");
  } else if (const auto* not_started = outcome.cause_as<SpawnFailed>()) {
    lines.push_back(not_started->failure.message);
  } else if (const std::string why = describe_failure(outcome); !why.empty()) {
    lines.push_back(why + ", " + when + " after the start");
  }
  describe_others(outcome, plan, evidence, lines);
  return lines;
}

std::string failure_signature(const JobOutcome& outcome, const FailureEvidence& evidence) {
  const auto* failed = outcome.cause_as<WorkerFailed>();
  if (failed == nullptr) return "";
  const WorkerEnd& end = failed->end;
  std::string text = end.error ? end.error->message + "\n" + end.error->place : base::join(evidence.last_lines, "\n");
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return std::to_string(end.rank) + " " + end.status.describe() + "\n" + text;
}

}  // namespace ddp::launcher
