#include "launcher/start/doctor/between/facts_to_compare.h"

#include <ddp/version.h>

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "base/text.h"
#include "launcher/start/doctor/checks.h"

namespace ddp::launcher::doctor {
namespace {

// Communication libraries read these, so all nodes need the same ones.
constexpr std::string_view kCompared[] = {"NCCL_", "GLOO_", "TORCH_NCCL_", "UCX_", "FI_"};
// These name devices of one node or files, or say what is logged.
constexpr std::string_view kOwn[] = {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA",   "NCCL_HOSTID",
                                     "NCCL_TOPO_FILE",     "UCX_NET_DEVICES",    "UCX_TLS",       "FI_TCP_IFACE",
                                     "FI_VERBS_IFACE",     "NCCL_CONF_FILE",     "NCCL_RAS_ADDR", "NCCL_DEBUG_FILE",
                                     "NCCL_DEBUG",         "NCCL_DEBUG_SUBSYS"};

std::string gpus_of(const Node& node) {
  std::map<std::string, int> models;
  for (const std::string& address : node.names("/proc/driver/nvidia/gpus")) {
    ++models[node.field("/proc/driver/nvidia/gpus/" + address + "/information", "Model")];
  }
  std::vector<std::string> texts;
  for (const auto& [model, count] : models) texts.push_back(std::to_string(count) + " × " + model);
  return models.empty() ? std::to_string(node.gpus.size()) : base::join(texts, ", ");
}

std::string rdma_of(const Node& node) {
  std::map<std::string, int> rates;
  for (const std::string& device : node.names("/sys/class/infiniband")) {
    const std::string ports = "/sys/class/infiniband/" + device + "/ports";
    for (const std::string& port : node.names(ports)) {
      if (node.line(ports + "/" + port + "/state").ends_with("ACTIVE"))
        ++rates[node.line(ports + "/" + port + "/rate")];
    }
  }
  std::vector<std::string> texts;
  for (const auto& [rate, count] : rates) texts.push_back(std::to_string(count) + " × " + rate);
  return texts.empty() ? "none" : base::join(texts, ", ");
}

std::string version_of(int number) {
  return std::to_string(number / 10'000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

}  // namespace

std::vector<Fact> facts_to_compare(const Node& node) {
  utsname machine{};
  ::uname(&machine);
  const auto nccl = nccl_number(node);
  const double gib = 1 << 20;  // MemTotal counts KiB
  const std::string memory = node.field("/proc/meminfo", "MemTotal");
  const auto kib = base::parse_integer(memory.substr(0, memory.find(' ')), 0, INT64_MAX);
  std::vector<Fact> facts = {
      {"ddplaunch", DDP_VERSION_STRING, true},
      {"architecture", machine.machine, true},
      {"kernel", node.line("/proc/sys/kernel/osrelease"), false},
      {"CPUs", std::to_string(node.allowed_cpus().size()), false},
      {"memory", std::to_string(std::lround(static_cast<double>(kib.value_or(0)) / gib)) + " GiB", false},
      {"GPUs", gpus_of(node), true},
      {"driver", node.line("/sys/module/nvidia/version"), true},
      {"NCCL", nccl ? version_of(*nccl) : "", true},
      {"RDMA ports", rdma_of(node), true},
  };
  for (const Setting& each : node.settings()) {
    const auto begins = [&](std::string_view prefix) { return each.name.starts_with(prefix); };
    const bool is_compared = std::ranges::any_of(kCompared, begins) || each.name == "OMP_NUM_THREADS";
    if (is_compared && std::ranges::find(kOwn, each.name) == std::end(kOwn))
      facts.push_back({each.name, each.value, true});
  }
  return facts;
}

}  // namespace ddp::launcher::doctor
