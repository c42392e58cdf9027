#include "launcher/run/ranks/process_activity.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "launcher/run/process/process_sample.h"
#include "launcher/run/process/process_tree.h"

namespace ddp::launcher {
namespace {

// Returns the bytes of /proc/PID/io, or std::nullopt if it cannot be read.
std::optional<std::uint64_t> io_bytes_of(const std::string& folder) {
  const std::string text = base::read_file(folder + "/io");
  if (text.empty()) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const std::string_view name : {"rchar: ", "wchar: "}) {
    const std::size_t at = text.find(name);
    if (at != std::string::npos) bytes += std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
  }
  return bytes;
}

// Returns whether the process is in the launcher's network namespace, so that the launcher can see its connections.
bool is_in_our_network(const std::string& folder) {
  std::error_code error;
  const auto theirs = std::filesystem::read_symlink(folder + "/ns/net", error);
  return !error && theirs == std::filesystem::read_symlink("/proc/self/ns/net", error);
}

}  // namespace

ActivitySample read_activity(std::span<const pid_t> processes,
                             const std::optional<std::vector<net::TcpBytes>>& connections, std::uint16_t store_port,
                             std::chrono::steady_clock::time_point until) {
  constexpr std::size_t kMostThreads = 512;
  ActivitySample sample;
  sample.is_complete = connections.has_value();
  for (const pid_t pid : processes) {
    const std::string folder = "/proc/" + std::to_string(pid);
    const auto stat = base::read_process_stat(folder);
    if (!stat) continue;
    ProcessCounters counters;
    counters.pid = pid;
    counters.started = stat->started;
    counters.cpu_ticks = stat->cpu_ticks + stat->cpu_ticks_of_children;
    counters.minor_faults = stat->minor_faults + stat->minor_faults_of_children;
    counters.major_faults = stat->major_faults + stat->major_faults_of_children;
    const auto io_bytes = io_bytes_of(folder);
    const bool is_known = io_bytes && is_in_our_network(folder);
    // A dead process does nothing, and not all of it can be read. Its other threads may outlive the first one.
    if (!is_known && is_dead(pid) && sample_threads(pid, 2).size() < 2) continue;
    counters.io_bytes = io_bytes.value_or(0);
    const RunQueueSample queue = sample_run_queue(pid, kMostThreads);
    counters.cpu_ticks -= std::min(counters.cpu_ticks, queue.answering_ticks);
    counters.minor_faults -= std::min(counters.minor_faults, queue.answering_faults);
    counters.is_runnable = queue.is_runnable;
    counters.waited = queue.waited;
    sample.processes.push_back(counters);
    sample.is_complete = sample.is_complete && is_known;
  }
  std::vector<std::uint64_t> held;
  for (const HeldSocket& socket : sockets_of(processes, until)) {
    held.push_back(socket.inode);
    if (socket.holder == processes.front()) sample.of_program.push_back(socket.inode);
  }
  std::ranges::sort(held);
  std::ranges::sort(sample.of_program);
  for (const net::TcpBytes& connection : connections.value_or(std::vector<net::TcpBytes>())) {
    const bool is_ours = connection.local_port == store_port || connection.remote_port == store_port;
    if (!is_ours && std::binary_search(held.begin(), held.end(), connection.inode)) {
      sample.connections.push_back(connection);
    }
  }
  if (std::chrono::steady_clock::now() >= until) sample.is_complete = false;
  return sample;
}

void find_peers(std::span<ActivitySample> ranks, std::span<const net::TcpBytes> connections) {
  using Ports = std::pair<std::uint16_t, std::uint16_t>;
  std::set<Ports> of_node;
  for (const net::TcpBytes& one : connections) of_node.insert({one.local_port, one.remote_port});
  std::map<Ports, std::size_t> holders;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (const net::TcpBytes& one : ranks[i].connections) holders[{one.local_port, one.remote_port}] = i;
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ActivitySample& sample = ranks[i];
    for (const net::TcpBytes& one : sample.connections) {
      const Ports other_end = {one.remote_port, one.local_port};
      const auto holder = holders.find(other_end);
      if (holder != holders.end() && holder->second != i) sample.peer_bytes += one.bytes;
      const bool is_of_program = std::ranges::binary_search(sample.of_program, one.inode);
      if (!of_node.contains(other_end) && is_of_program) sample.far_bytes += one.bytes;
    }
  }
}

}  // namespace ddp::launcher
