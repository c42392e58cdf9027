#include "launcher/start/doctor/node.h"

#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/host_name.h"
#include "base/text.h"
#include "launcher/start/facts/node_facts.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ddp::launcher::doctor {

namespace fs = std::filesystem;

std::string Node::text(const std::string& path) const {
  return base::read_file(root + path);
}

std::string Node::line(const std::string& path) const {
  return base::read_line(root + path);
}

bool Node::exists(const std::string& path) const {
  std::error_code ignored;
  return fs::exists(root + path, ignored);
}

std::vector<std::string> Node::names(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root + path, ignored)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

std::string Node::variable(std::string_view name) const {
  return find_variable(environment, name).value_or("");
}

std::set<int> Node::allowed_cpus() const {
  constexpr std::string_view kField = "Cpus_allowed_list:";
  for (const std::string& line : base::split(text("/proc/self/status"), '\n')) {
    if (line.starts_with(kField)) return cpus_of(line.substr(kField.size()));
  }
  return {};
}

bool Node::is_virtual() const {
  const std::string cpus = text("/proc/cpuinfo");
  return cpus.find(" hypervisor") != std::string::npos || exists("/sys/hypervisor/type");
}

std::set<int> cpus_of(const std::string& list) {
  std::set<int> cpus;
  for (const std::string& part : base::split(base::trimmed(list), ',')) {
    const std::vector<std::string> ends = base::split(part, '-');
    const auto first = base::parse_integer(ends.front(), 0, 1 << 20);
    const auto last = base::parse_integer(ends.back(), 0, 1 << 20);
    if (!first || !last) continue;
    for (auto cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  return cpus;
}

Node this_node(int workers, int nodes, const std::string& folder) {
  Node node;
  node.host_name = base::host_name();
  for (char** line = environ; *line != nullptr; ++line) node.environment.emplace_back(*line);
  node.home = node.variable("HOME");
  node.is_root = ::geteuid() == 0;
  node.limits = read_resource_limits();
  node.gpus = find_gpus("/");
  node.workers = workers > 0 ? workers : std::max(1, static_cast<int>(node.gpus.size()));
  node.nodes = nodes;
  node.folder = folder;
  timex clock{};
  node.is_synchronized = ::adjtimex(&clock) != TIME_ERROR;
  node.file_system = [](const std::string& path) -> std::optional<FileSystem> {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0) return std::nullopt;
    return FileSystem{status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail};
  };
  return node;
}

}  // namespace ddp::launcher::doctor
