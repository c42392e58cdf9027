#include "launcher/run/process/process_sample.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "launcher/run/process/process_tree.h"
#include "launcher/start/facts/wrapper_programs.h"

namespace ddp::launcher {
namespace {

// Returns the function in which a process or thread sleeps. Returns an empty text if it runs, or if this user may not
// see it.
std::string kernel_function(const std::string& folder) {
  const std::string function = base::read_file(folder + "/wchan");
  return function == "0" ? "" : function;
}

// Returns the threads of a process, the first one first.
std::vector<pid_t> threads_of(pid_t pid, std::size_t most) {
  std::vector<pid_t> tids;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", ignored)) {
    tids.push_back(std::atoi(entry.path().filename().c_str()));
  }
  std::ranges::sort(tids, [&](pid_t a, pid_t b) { return std::pair(a != pid, a) < std::pair(b != pid, b); });
  if (tids.size() > most) tids.resize(most);
  return tids;
}

// Parses a system call such as "202 0x7f00 0x80 0x0 0x0 …". `own` and `shared` mean that the thread waits for a futex
// without a time-out. `own` is a futex of the process itself, and `shared` may be one of another process, too. A thread
// that joins another thread waits for a shared futex.
enum class Parked : std::uint8_t { no, shared, own };
Parked parked(const std::string& system_call) {
  const std::vector<std::string> words = base::split(system_call, ' ');
  constexpr std::size_t kOperation = 2;
  constexpr std::size_t kTimeout = 4;
  if (words.size() <= kTimeout || words[0] != std::to_string(SYS_futex) || words[kTimeout] != "0x0") return Parked::no;
  constexpr unsigned long kPrivate = 128;
  constexpr unsigned long kWait = 0;
  constexpr unsigned long kWaitBits = 9;
  const unsigned long operation = std::strtoul(words[kOperation].c_str(), nullptr, 16);
  const unsigned long command = operation & 0x7f;
  if (command != kWait && command != kWaitBits) return Parked::no;
  return (operation & kPrivate) != 0 ? Parked::own : Parked::shared;
}

// `mask` is the beginning of the line of /proc/PID/status that contains the set of signals.
bool is_in_mask(pid_t pid, std::string_view mask, int signal) {
  const std::string status = base::read_file("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = status.find(mask);
  if (at == std::string::npos || signal < 1 || signal > 64) return false;
  const unsigned long long bits = std::strtoull(status.c_str() + at + mask.size(), nullptr, 16);
  return ((bits >> static_cast<unsigned>(signal - 1)) & 1) != 0;
}

std::string executable_name(pid_t pid) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error).filename();
}

// A Python program is recognised by its script's name: /opt/conda/bin/python /opt/conda/bin/conda run, python -m
// accelerate.…
bool is_wrapper_process(pid_t pid) {
  const std::string name = executable_name(pid);
  if (!name.starts_with("python")) return is_wrapper(name);
  const std::vector<std::string> words =
      base::split(base::read_file("/proc/" + std::to_string(pid) + "/cmdline"), '\0');
  const auto script = std::find_if(words.begin() + (words.empty() ? 0 : 1), words.end(),
                                   [](const std::string& word) { return !word.starts_with('-'); });
  if (script == words.end()) return false;
  const std::string file = std::filesystem::path(*script).filename();
  return is_wrapper(file.substr(0, file.find('.')));
}

}  // namespace

std::optional<ProcessSample> sample_process(pid_t pid, bool with_waits) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const auto stat = base::read_process_stat(folder);
  if (!stat) return std::nullopt;
  ProcessSample sample;
  sample.state = stat->state;
  sample.cpu_ticks = stat->cpu_ticks;
  if (!with_waits) return sample;
  constexpr std::string_view kWaits = "\nvoluntary_ctxt_switches:\t";
  const std::string status = base::read_file(folder + "/status");
  if (const std::size_t at = status.find(kWaits); at != std::string::npos) {
    sample.waits = std::strtoull(status.c_str() + at + kWaits.size(), nullptr, 10);
  }
  sample.waits_in = kernel_function(folder);
  return sample;
}

std::vector<ThreadSample> sample_threads(pid_t pid, std::size_t most) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  std::vector<ThreadSample> threads;
  for (const pid_t tid : threads_of(pid, most)) {
    const std::string thread = folder + "/" + std::to_string(tid);
    auto stat = base::read_process_stat(thread);
    if (stat) threads.push_back({tid, std::move(stat->name), stat->state, kernel_function(thread)});
  }
  return threads;
}

std::optional<FreeThreads> count_free_threads(pid_t pid, pid_t but, std::size_t most) {
  const std::vector<pid_t> threads = threads_of(pid, most + 1);
  if (threads.empty() || threads.size() > most) return std::nullopt;
  FreeThreads count;
  for (const pid_t tid : threads) {
    const std::string thread = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid);
    if (tid == but || base::read_file(thread + "/comm").starts_with(base::kOwnThreads)) continue;
    const Parked how = parked(base::read_file(thread + "/syscall"));
    count.free += how == Parked::own ? 0 : 1;
    count.acting += how == Parked::no ? 1 : 0;
  }
  return count;
}

std::optional<base::ExitStatus> status_of_zombie(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  struct stat owner {};
  // The kernel shows 0 to other users.
  if (::stat(folder.c_str(), &owner) != 0 || (owner.st_uid != ::geteuid() && ::geteuid() != 0)) return std::nullopt;
  const auto stat = base::read_process_stat(folder);
  if (!stat || stat->state != 'Z' || !stat->wait_status) return std::nullopt;
  return base::ExitStatus::from_wait(*stat->wait_status);
}

RunQueueSample sample_run_queue(pid_t pid, std::size_t most) {
  RunQueueSample sample{false, std::chrono::nanoseconds(0)};
  for (const pid_t tid : threads_of(pid, most)) {
    const std::string folder = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid);
    const auto stat = base::read_process_stat(folder);
    if (!stat) continue;  // the thread has ended
    if (stat->name == "pt_workerserver") {
      sample.answering_ticks += stat->cpu_ticks;
      sample.answering_faults += stat->minor_faults;
      continue;
    }
    sample.is_runnable = sample.is_runnable || stat->state == 'R';
    // The format is "TIME_ON_CPU TIME_ON_RUN_QUEUE TIMESLICES", in nanoseconds. All are 0 if the kernel does not count
    // them.
    const std::vector<std::string> times = base::split(base::read_file(folder + "/schedstat"), ' ');
    const bool is_counted = times.size() == 3 && !times[2].starts_with('0');
    const auto waited = is_counted ? base::parse_integer(times[1], 0, INT64_MAX) : std::nullopt;
    if (!waited) sample.waited.reset();
    if (sample.waited) *sample.waited += std::chrono::nanoseconds(*waited);
  }
  return sample;
}

bool catches_signal(pid_t pid, int signal) {
  return is_in_mask(pid, "\nSigCgt:\t", signal);
}

bool blocks_signal(pid_t tid, int signal) {
  return is_in_mask(tid, "\nSigBlk:\t", signal);
}

pid_t program_of(pid_t worker) {
  for (int depth = 0; depth < 8; ++depth) {
    if (!is_wrapper_process(worker)) return worker;
    const std::vector<pid_t> children = children_of(worker);
    if (children.size() != 1) return worker;
    worker = children.front();
  }
  return worker;
}

bool is_python(pid_t pid) {
  return executable_name(pid).starts_with("python");
}

std::optional<std::uint64_t> socket_of_link(std::string_view link) {
  constexpr std::string_view kBefore = "socket:[";
  if (!link.starts_with(kBefore) || !link.ends_with(']')) return std::nullopt;
  link.remove_prefix(kBefore.size());
  link.remove_suffix(1);
  const auto inode = base::parse_integer(link, 1, INT64_MAX);
  return inode ? std::optional(static_cast<std::uint64_t>(*inode)) : std::nullopt;
}

std::vector<HeldSocket> sockets_of(pid_t root, std::chrono::steady_clock::time_point until) {
  std::vector<pid_t> processes = descendants(root, {});
  processes.insert(processes.begin(), root);
  return sockets_of(processes, until);
}

std::vector<HeldSocket> sockets_of(std::span<const pid_t> processes, std::chrono::steady_clock::time_point until) {
  std::vector<HeldSocket> sockets;
  std::error_code ignored;
  for (const pid_t pid : processes) {
    if (std::chrono::steady_clock::now() >= until) break;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", ignored)) {
      std::array<char, 64> link{};
      const ssize_t size = ::readlink(entry.path().c_str(), link.data(), link.size());
      const auto inode = socket_of_link({link.data(), size > 0 ? static_cast<std::size_t>(size) : 0});
      if (inode) sockets.push_back({*inode, pid});
    }
  }
  return sockets;
}

}  // namespace ddp::launcher
