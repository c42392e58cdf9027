#include <algorithm>

#include "base/text.h"
#include "launcher/start/doctor/checks.h"
#include "launcher/start/doctor/known_variables.h"
#include "launcher/start/facts/node_facts.h"

namespace ddp::launcher::doctor {
namespace {

// Plug-ins have variables of their own, which must not count as misspelt.
constexpr std::size_t kMostMistakes = 1;
constexpr std::size_t kShownBytes = 200;  // of a value

constexpr std::string_view kPrefixes[] = {"NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_", "CUDA_", "MASTER_"};

// Returns the variable that is meant, or "" if the name is known or like none.
std::string meant_by(const std::string& name) {
  const auto known = known_variables();
  const bool has_prefix =
      std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
      name.starts_with("NCLL_") || name.starts_with("NCC_");
  // A short name is like many others.
  if (!has_prefix || name.size() < 9 || std::ranges::find(known, name) != known.end()) return "";
  const auto nearest =
      std::ranges::min_element(known, {}, [&](std::string_view each) { return base::edit_distance(name, each); });
  return base::edit_distance(name, *nearest) <= kMostMistakes ? std::string(*nearest) : "";
}

// Settings that help once and harm from then on. `value` is "" if any counts that is not "0".
struct Harmful {
  const char* name;
  const char* value;
  bool (*applies)(const Node& node);
  const char* harm;
};

bool always(const Node&) {
  return true;
}
bool has_peers(const Node& node) {
  return node.gpus.size() > 1;
}
bool has_switch(const Node& node) {
  return node.has_nvswitch();
}
bool has_gpus(const Node& node) {
  return !node.gpus.empty();
}
bool has_rdma_between_nodes(const Node& node) {
  return node.nodes > 1 && !node.names("/sys/class/infiniband").empty();
}

constexpr Harmful kHarmful[] = {
    {"NCCL_P2P_DISABLE", "", has_peers, "GPUs then exchange all data through host memory, at a part of the bandwidth"},
    {"NCCL_SHM_DISABLE", "", has_peers, "GPUs of one node then use the network where they cannot reach each other"},
    {"NCCL_IB_DISABLE", "", has_rdma_between_nodes, "NCCL then uses TCP, although there is an RDMA device"},
    {"NCCL_NET", "Socket", has_rdma_between_nodes, "NCCL then uses TCP, although there is an RDMA device"},
    {"CUDA_LAUNCH_BLOCKING", "", has_gpus, "the program then waits for each kernel"},
    {"TORCH_NCCL_BLOCKING_WAIT", "", has_gpus, "each wait for a collective then blocks the program"},
    {"NCCL_BLOCKING_WAIT", "", has_gpus, "each wait for a collective then blocks the program"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", always, "PyTorch then compares each collective between all ranks"},
    {"NCCL_CHECK_POINTERS", "", has_gpus, "NCCL then asks the driver about each pointer"},
    {"NCCL_LAUNCH_MODE", "GROUP", has_gpus, "one thread then starts the kernels of all GPUs"},
    {"NCCL_NVLS_ENABLE", "0", has_switch, "NVSwitches then do not add up the data, and all_reduce is slower"},
    {"NCCL_ALGO", "", has_gpus, "NCCL then cannot choose the algorithm by size"},
    {"NCCL_PROTO", "", has_gpus, "NCCL then cannot choose the protocol by size, and a forced LL128 may corrupt data"},
};

bool is_harmful(const Harmful& harmful, const Setting& setting, const Node& node) {
  if (setting.name != harmful.name || !harmful.applies(node)) return false;
  const std::string wanted = harmful.value;
  return wanted.empty() ? !setting.value.empty() && setting.value != "0" : setting.value == wanted;
}

Findings check_visible_devices(const Node& node) {
  const auto list = find_variable(node.environment, "CUDA_VISIBLE_DEVICES");
  if (!list || node.gpus.empty()) return {};
  const std::string setting = "CUDA_VISIBLE_DEVICES=" + *list;
  const std::string remedy = "unset CUDA_VISIBLE_DEVICES, or name each GPU once (nvidia-smi -L)";
  if (const auto twice = repeated_gpu(*list, node.gpus))
    return {fail(setting + " names " + *twice + " twice, so CUDA shows no GPU", remedy)};
  const auto visible = std::ssize(node.visible());
  if (visible == 0) return {fail(setting + " names no GPU of this node, so CUDA shows none", remedy)};
  if (visible < std::ssize(base::split(*list, ','))) {
    return {fail(setting + " names a GPU that this node lacks, so CUDA shows only " + base::counted(visible, "GPU"),
                 remedy)};
  }
  return {};
}

Findings check_threads(const Node& node) {
  const auto threads = base::parse_integer(node.variable("OMP_NUM_THREADS"), 1, 1 << 20);
  const int cpus = usable_cpus(static_cast<int>(std::ssize(node.allowed_cpus())), cgroup_cpu_limit(node.root));
  if (!threads || *threads <= 2 || *threads * node.workers <= 2L * cpus) return {};
  return {warn("OMP_NUM_THREADS=" + std::to_string(*threads) + " for " + base::counted(node.workers, "worker") +
                   " on " + base::counted(cpus, "CPU") + ", so the threads wait for each other",
               "OMP_NUM_THREADS=" + std::to_string(std::max(1, cpus / node.workers)))};
}

}  // namespace

Findings check_variables(const Node& node) {
  Findings findings;
  int count = 0;
  for (const Setting& setting : node.settings()) {
    if (std::ranges::any_of(kPrefixes, [&](std::string_view p) { return setting.name.starts_with(p); })) ++count;
    const std::string shown = setting.name + "=" + setting.value.substr(0, kShownBytes) + " of " +
                              (setting.file.empty() ? "the environment" : setting.file);
    if (const std::string meant = meant_by(setting.name); !meant.empty()) {
      findings.push_back(warn("no program known here reads " + shown, "write " + meant + ", if that is meant"));
    }
    for (const Harmful& harmful : kHarmful) {
      if (!is_harmful(harmful, setting, node)) continue;
      const std::string where = setting.file.empty() ? "unset " + setting.name + ", and look in ~/.bashrc"
                                                     : "delete the line of " + setting.file;
      findings.push_back(warn(shown + ": " + harmful.harm, where));
    }
    const bool is_shared_file = setting.name == "NCCL_DEBUG_FILE" && setting.value.find('%') == std::string::npos &&
                                !setting.value.starts_with("/dev/");
    if (is_shared_file && node.workers > 1) {
      findings.push_back(warn(shown + ": all ranks write to this file", "NCCL_DEBUG_FILE=" + setting.value + ".%h.%p"));
    }
  }
  for (const auto& check : {check_visible_devices, check_threads}) {
    for (Finding& finding : check(node)) findings.push_back(std::move(finding));
  }
  if (findings.empty()) {
    findings.push_back(ok(count == 0
                              ? "no variable of NCCL, PyTorch or CUDA is set"
                              : base::counted(count, "variable") + " of NCCL, PyTorch or CUDA, none of which harms"));
  }
  return findings;
}

}  // namespace ddp::launcher::doctor
