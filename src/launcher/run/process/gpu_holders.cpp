#include "launcher/run/process/gpu_holders.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/uninterrupted.h"
#include "base/unique_fd.h"
#include "launcher/run/process/our_programs.h"
#include "launcher/run/process/process_tree.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostLine = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kReapPause{5};

// Starts the program with its standard output in a pipe, and nothing else of the launcher.
std::optional<pid_t> start(const std::string& program, int out) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = program;
  std::array<char*, 2> arguments = {name.data(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, program.c_str(), &files, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return error == 0 ? std::optional(pid) : std::nullopt;
}

std::string read_line(int fd, Clock::time_point deadline) {
  std::string text;
  std::array<char, 4096> buffer;
  while (text.find('\n') == std::string::npos && text.size() < kMostLine) {
    const bool is_ready = base::poll_until(fd, POLLIN, deadline) > 0;
    const ssize_t got = is_ready ? ::read(fd, buffer.data(), buffer.size()) : 0;
    if (got <= 0) return "";
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text.substr(0, text.find('\n'));
}

// Completes what is known of a process of this container or node.
void add_names(GpuUser& user) {
  const std::string folder = "/proc/" + std::to_string(user.pid);
  user.name = base::printable(base::read_line(folder + "/comm"));
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0 && status.st_uid != ::geteuid()) user.user = status.st_uid;
}

}  // namespace

OpenFileSearch find_processes_with(const std::string& file, const std::string& proc, Clock::time_point deadline) {
  OpenFileSearch search;
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator(proc, ignored)) {
    const auto pid = base::parse_integer(process.path().filename().string(), 1, 1 << 30);
    if (!pid) continue;
    if (Clock::now() >= deadline) {
      search.is_partial = true;
      break;
    }
    std::error_code error;
    const fs::directory_iterator files(process.path() / "fd", error);
    if (error == std::errc::permission_denied) search.is_partial = true;
    const bool has_it = std::any_of(begin(files), end(files), [&](const fs::directory_entry& one) {
      return fs::read_symlink(one.path(), ignored) == file;
    });
    if (has_it) search.pids.push_back(static_cast<pid_t>(*pid));
  }
  std::ranges::sort(search.pids);
  return search;
}

std::optional<std::string> first_line_of(const std::string& program, Clock::time_point deadline) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const base::UniqueFd in(ends[0]);
  base::UniqueFd out(ends[1]);
  const auto pid = start(program, out.get());
  if (!pid) return std::nullopt;
  out.reset();
  std::string line = read_line(in.get(), deadline);
  ::kill(*pid, SIGKILL);
  while (::waitpid(*pid, nullptr, WNOHANG) == 0 && Clock::now() < deadline) std::this_thread::sleep_for(kReapPause);
  return line.empty() ? std::nullopt : std::optional(std::move(line));
}

GpuUsers find_gpu_users(const GpuFacts& gpu, std::chrono::milliseconds limit) {
  const Clock::time_point deadline = Clock::now() + limit;
  GpuUsers found;
  const auto line = first_line_of(our_program("ddp_gpu_reader"), deadline - limit / 4);
  const auto node_gpus = line ? gpus_from_line(*line) : std::nullopt;
  found.is_in_container = has_own_pids();
  for (const GpuCounters& counters : node_gpus.value_or(std::vector<GpuCounters>())) {
    if (gpu.uuid.empty() || counters.uuid != gpu.uuid) continue;
    // In a container, the driver may show no process at all.
    if (found.is_in_container && counters.holders.empty()) continue;
    found.known = GpuUsers::Known::memory;
    found.has_node_pids = counters.has_node_pids;
    for (const GpuHolder& holder : counters.holders) found.users.push_back({holder.pid, holder.bytes});
  }
  if (found.known == GpuUsers::Known::nothing && gpu.minor) {
    const OpenFileSearch search = find_processes_with("/dev/nvidia" + std::to_string(*gpu.minor), "/proc", deadline);
    found.known = GpuUsers::Known::device_files;
    found.is_partial = search.is_partial;
    for (const pid_t pid : search.pids) found.users.push_back({pid});
  }
  if (!found.has_node_pids) {
    for (GpuUser& user : found.users) add_names(user);
  }
  return found;
}

}  // namespace ddp::launcher
