#include <algorithm>
#include <limits>

#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/start/doctor/checks.h"
#include "launcher/start/facts/cgroups.h"

namespace ddp::launcher::doctor {
namespace {

// A rank of PyTorch has about 30 threads of its own, and one for each CPU of its pools. NCCL and a loader with several
// workers have some more.
constexpr std::uint64_t kThreadsPerWorker = 128;
// NCCL opens some connections for each channel and peer.
constexpr int kPortsPerWorker = 64;
constexpr int kFewPorts = 1000;
constexpr std::uint64_t kSmallStack = 1 << 20;  // Python and NCCL are made for 8 MiB
constexpr const char* kMoreFiles =
    "the line '* - nofile 1048576' in /etc/security/limits.d/files.conf, and a new login. In a container: docker run "
    "--ulimit nofile=1048576";

std::string workers_text(const Node& node) {
  return base::counted(node.workers, "worker");
}

std::uint64_t number_of(const std::string& text) {
  const auto number = base::parse_integer(base::trimmed(text, " \n"), 0, std::numeric_limits<std::int64_t>::max());
  return number ? static_cast<std::uint64_t>(*number) : ResourceLimits::kUnlimited;
}

// Returns whether the process has CAP_IPC_LOCK, which the limit does not bind.
bool may_lock_memory(const Node& node) {
  constexpr int kIpcLock = 14;
  return (base::parse_hex(node.field("/proc/self/status", "CapEff")).value_or(0) >> kIpcLock & 1) != 0;
}

}  // namespace

Findings check_files(const Node& node) {
  const std::uint64_t allowed = node.limits.descriptors;
  const auto needed = limits::kJobDescriptors + limits::kDescriptorsPerWorker * static_cast<std::size_t>(node.workers);
  if (const auto shortage = descriptor_shortage(node.limits, needed, workers_text(node))) {
    return {fail(*shortage, kMoreFiles)};
  }
  if (allowed < limits::kFewDescriptors) {
    return {warn("only " + std::to_string(allowed) +
                     " files may be open (ulimit -Hn). Data loaders and NCCL often need thousands",
                 kMoreFiles)};
  }
  return {ok(allowed == ResourceLimits::kUnlimited ? "any number of files may be open"
                                                   : std::to_string(allowed) + " files may be open")};
}

Findings check_processes(const Node& node) {
  std::uint64_t room = node.limits.processes;
  std::string source = "ulimit -u";
  for (const Cgroup& group : own_cgroups_with("pids", node.root)) {
    const std::uint64_t most = number_of(node.text(group.folder + "/pids.max"));
    const std::uint64_t used = number_of(node.text(group.folder + "/pids.current"));
    if (most == ResourceLimits::kUnlimited || used == ResourceLimits::kUnlimited) continue;
    if (most - std::min(most, used) >= room) continue;
    room = most - std::min(most, used);
    source = "pids.max of its control group";
  }
  if (room == ResourceLimits::kUnlimited) return {ok("any number of processes and threads may run")};
  const std::uint64_t needed = kThreadsPerWorker * static_cast<std::uint64_t>(node.workers);
  const std::string text = std::to_string(room) + " processes and threads may run (" + source + ")";
  if (room >= needed) return {ok(text)};
  const std::string remedy =
      source == "ulimit -u" ? "the line '* - nproc unlimited' in /etc/security/limits.d/processes.conf, and a new login"
                            : "docker run --pids-limit=-1, or raise podPidsLimit of the kubelet";
  return {(room < needed / 8 ? fail : warn)(
      "only " + text + ", and " + workers_text(node) + " with their loaders may need " + std::to_string(needed),
      remedy)};
}

Findings check_locked_memory(const Node& node) {
  const std::uint64_t bytes = node.limits.locked_memory;
  if (bytes == ResourceLimits::kUnlimited) return {ok("any amount of memory may be locked")};
  const std::string text = base::human_bytes(bytes) + " of memory may be locked (ulimit -l)";
  if (node.nodes <= 1 || node.names("/sys/class/infiniband").empty())
    return {ok(text + ", and no RDMA between nodes needs more")};
  if (may_lock_memory(node)) return {ok("the limit of locked memory does not bind this process")};
  return {
      warn("only " + text + ", but there is an RDMA device. NCCL may fail to register its buffers",
           "the line '* - memlock unlimited' in /etc/security/limits.d/memory.conf, and a new login. In a container: "
           "docker run --ulimit memlock=-1. For a service such as slurmd: LimitMEMLOCK=infinity")};
}

Findings check_stack(const Node& node) {
  if (node.limits.stack < kSmallStack) {
    return {
        warn("a thread's stack has only " + base::human_bytes(node.limits.stack) + " (ulimit -s)", "ulimit -s 8192")};
  }
  if (node.limits.stack != ResourceLimits::kUnlimited)
    return {ok("a thread's stack has " + base::human_bytes(node.limits.stack))};
  constexpr int kRepaired = 22800;
  const auto nccl = nccl_number(node);
  if (node.gpus.empty() || (nccl && *nccl >= kRepaired)) return {ok("a stack has no limit")};
  if (!nccl) return {unknown("a stack has no limit, which harms NCCL before 2.28, and its version is unknown")};
  return {warn("a stack has no limit (ulimit -s), so threads get small stacks, in which NCCL before 2.28 may crash",
               "ulimit -s 8192")};
}

Findings check_ports(const Node& node) {
  const std::vector<std::string> range = base::words(node.line("/proc/sys/net/ipv4/ip_local_port_range"), " \t");
  const auto first = range.size() == 2 ? base::parse_integer(range[0], 0, 65535) : std::nullopt;
  const auto last = range.size() == 2 ? base::parse_integer(range[1], 0, 65535) : std::nullopt;
  if (!first || !last) return {unknown("/proc/sys/net/ipv4/ip_local_port_range cannot be read")};
  const std::int64_t ports = std::max<std::int64_t>(*last - *first + 1, 0);
  const std::string text = std::to_string(ports) + " ports are free to choose (net.ipv4.ip_local_port_range)";
  if (ports >= kFewPorts && ports >= static_cast<std::int64_t>(node.workers) * kPortsPerWorker) return {ok(text)};
  return {warn("only " + text, "sysctl -w net.ipv4.ip_local_port_range='20000 60999'")};
}

}  // namespace ddp::launcher::doctor
