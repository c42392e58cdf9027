#include "launcher/start/doctor/node.h"

#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>

#include "base/file.h"
#include "base/host_name.h"
#include "base/text.h"
#include "launcher/start/doctor/run_checks.h"
#include "launcher/start/facts/node_facts.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace ddp::launcher {
BOOST_DESCRIBE_STRUCT(GpuFacts, (), (index, uuid, pci_address, numa_node, minor))
}

namespace ddp::launcher::doctor {

namespace fs = std::filesystem;

std::string Node::text(const std::string& path) const {
  return base::read_file(root + path);
}

std::string Node::line(const std::string& path) const {
  return base::read_line(root + path);
}

std::string Node::field(const std::string& path, const std::string& name) const {
  for (const std::string& each : base::split(text(path), '\n')) {
    if (each.starts_with(name + ":")) return base::trimmed(each.substr(name.size() + 1));
  }
  return "";
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

std::vector<VisibleGpu> Node::visible() const {
  return visible_gpus(find_variable(environment, "CUDA_VISIBLE_DEVICES"), gpus);
}

std::vector<Setting> Node::settings() const {
  std::vector<Setting> settings;
  const auto add = [&](const std::string& line, const std::string& file) {
    const std::size_t equals = line.find('=');
    const std::string name = base::trimmed(line.substr(0, equals));
    const bool is_known = std::ranges::find(settings, name, &Setting::name) != settings.end();
    if (equals == std::string::npos || name.empty() || is_known) return;
    settings.push_back({name, base::trimmed(line.substr(equals + 1)), file});
  };
  for (const std::string& line : environment) add(line, "");
  const std::string named = variable("NCCL_CONF_FILE");
  for (const std::string& file : {named.empty() ? home + "/.nccl.conf" : named, std::string("/etc/nccl.conf")}) {
    for (const std::string& line : base::split(text(file), '\n')) {
      if (!line.starts_with('#')) add(line, file);
    }
  }
  return settings;
}

std::string Node::setting(const std::string& name) const {
  const std::vector<Setting> all = settings();
  const auto found = std::ranges::find(all, name, &Setting::name);
  return found == all.end() ? "" : found->value;
}

bool Node::has_nvswitch() const {
  return exists("/dev/nvidia-nvswitchctl") || !names("/proc/driver/nvidia-nvswitch/devices").empty();
}

std::set<int> Node::allowed_cpus() const {
  return cpus_of(field("/proc/self/status", "Cpus_allowed_list"));
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

base::Result<std::vector<GpuFacts>> gpus_of_this_node(std::chrono::milliseconds limit) {
  std::error_code ignored;
  if (!fs::exists("/proc/driver/nvidia/gpus", ignored)) return find_gpus("/");
  const Check check = {"gpus", [](const Node&) { return Findings{ok(wire::json_of(find_gpus("/")).dump())}; }};
  const Findings findings = run_checks(std::span(&check, 1), {}, limit);
  if (findings.size() != 1 || findings.front().grade != Grade::ok)
    return base::Failure{findings.empty() ? "no answer" : findings.front().text};
  std::vector<GpuFacts> gpus;
  wire::read_json(wire::Json::parse(findings.front().text), gpus);
  return gpus;
}

Node this_node(int workers, int nodes, const std::string& folder) {
  Node node;
  node.host_name = base::host_name();
  for (char** line = environ; *line != nullptr; ++line) node.environment.emplace_back(*line);
  node.home = node.variable("HOME");
  node.is_root = ::geteuid() == 0;
  node.limits = read_resource_limits();
  constexpr std::chrono::seconds kLimit{4};
  auto gpus = gpus_of_this_node(kLimit);
  gpus ? void(node.gpus = std::move(gpus).value()) : void(node.gpus_failure = gpus.error().message);
  node.workers = workers > 0 ? workers : std::max(1, static_cast<int>(node.visible().size()));
  const auto of_slurm = base::parse_integer(node.variable("SLURM_JOB_NUM_NODES"), 1, 1 << 20);
  node.nodes = nodes > 0 ? nodes : static_cast<int>(of_slurm.value_or(1));
  std::error_code ignored;
  // The number of the first name space of processes never changes.
  node.sees_all_processes =
      fs::read_symlink("/proc/self/ns/pid", ignored) == "pid:[4026531836]" && node.exists("/proc/1/comm");
  node.folder = folder;
  timex clock{};
  if (const int state = ::adjtimex(&clock); state >= 0) node.is_synchronized = state != TIME_ERROR;
  node.file_system = [](const std::string& path) -> std::optional<FileSystem> {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0) return std::nullopt;
    return FileSystem{status.f_frsize * status.f_blocks, status.f_frsize * status.f_bavail};
  };
  return node;
}

}  // namespace ddp::launcher::doctor
