#include "launcher/run/process/gpu_holders.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/printable.h"
#include "base/text.h"
#include "launcher/run/process/helper.h"
#include "launcher/run/process/our_programs.h"
#include "launcher/run/process/process_tree.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostLine = std::size_t{1} << 20;

// Completes what is known of a process of this container or node.
void add_names(GpuUser& user) {
  const std::string folder = "/proc/" + std::to_string(user.pid);
  user.name = base::printable(base::read_line(folder + "/comm"));
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0 && status.st_uid != ::geteuid()) user.user = status.st_uid;
}

}  // namespace

bool has_open_file(const std::string& folder, const std::function<bool(const std::string& file)>& is_it,
                   std::error_code& error) {
  std::error_code ignored;
  for (fs::directory_iterator files(folder + "/fd", error); !error && files != end(files); files.increment(error)) {
    if (is_it(fs::read_symlink(files->path(), ignored).string())) return true;
  }
  return false;
}

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
    const bool has_it = has_open_file(
        process.path().string(), [&](const std::string& one) { return one == file; }, error);
    if (error == std::errc::permission_denied) search.is_partial = true;
    if (has_it) search.pids.push_back(static_cast<pid_t>(*pid));
  }
  std::ranges::sort(search.pids);
  return search;
}

std::optional<std::string> first_line_of(const std::string& program, Clock::time_point deadline) {
  net::EventLoop loop;
  std::string text;
  HelperCallbacks callbacks;
  callbacks.read = [&](std::size_t /*stream*/, std::string_view bytes) {
    text += bytes;
    if (text.find('\n') != std::string::npos || text.size() >= kMostLine) loop.stop();
  };
  callbacks.ended = [&](const base::ExitStatus&) { loop.stop(); };
  const auto run = Helper::start(loop, {{program}}, std::move(callbacks));
  if (!run) return std::nullopt;
  const auto alarm = loop.at(deadline, [&] { loop.stop(); });
  loop.run();
  const std::size_t end = text.find('\n');
  return end == 0 || end == std::string::npos ? std::nullopt : std::optional(text.substr(0, end));
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
