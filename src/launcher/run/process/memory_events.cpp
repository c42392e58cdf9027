#include "launcher/run/process/memory_events.h"

#include <fstream>

namespace ddp::launcher {
namespace {

// Returns the number after `name` in a file of lines "name number", or 0 if there is none.
std::uint64_t counter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t value = 0;
  while (file >> word >> value) {
    if (word == name) return value;
  }
  return 0;
}

// Returns the number in a file. Returns 0 for "max", for no number, and for the huge number by which version 1 means no
// limit.
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  file >> value;
  return file && value < (std::uint64_t{1} << 60) ? value : 0;
}

}  // namespace

OomWatch::OomWatch() : OomWatch(own_cgroups_with("memory"), "/proc/vmstat") {}

OomWatch::OomWatch(std::vector<Cgroup> cgroups, std::string vmstat)
    : cgroups_(std::move(cgroups)), vmstat_(std::move(vmstat)) {
  for (const Cgroup& cgroup : cgroups_) seen_.push_back(kills_in(cgroup));
  seen_.push_back(kills_of_node());
}

std::uint64_t OomWatch::kills_in(const Cgroup& cgroup) const {
  return counter(cgroup.folder + (cgroup.version2 ? "/memory.events" : "/memory.oom_control"), "oom_kill");
}

std::uint64_t OomWatch::kills_of_node() const {
  return counter(vmstat_, "oom_kill");
}

std::optional<OomKill> OomWatch::new_kill() {
  std::optional<OomKill> kill;
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const bool is_node = i == cgroups_.size();
    const std::uint64_t now = is_node ? kills_of_node() : kills_in(cgroups_[i]);
    const bool grown = now > seen_[i];
    seen_[i] = now;
    if (!grown || (kill && kill->limit_bytes > 0)) continue;
    kill = OomKill{};
    if (is_node) continue;
    // A kill is counted in all groups of the killed process. The nearest group with a limit is the one that was full.
    const Cgroup& cgroup = cgroups_[i];
    const auto bytes = [&](const char* name2, const char* name1) {
      return number_in(cgroup.folder + (cgroup.version2 ? name2 : name1));
    };
    const std::uint64_t limit = bytes("/memory.max", "/memory.limit_in_bytes");
    if (limit > 0) kill = OomKill{cgroup.folder, limit, bytes("/memory.peak", "/memory.max_usage_in_bytes")};
  }
  return kill;
}

}  // namespace ddp::launcher
