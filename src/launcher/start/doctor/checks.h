// The checks of `ddplaunch doctor`, as a table. A check reads the node and returns what it found. It may hang, for
// example on a file system or on a driver, so it runs in a process of its own (run_checks.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/start/doctor/finding.h"
#include "launcher/start/doctor/node.h"

namespace ddp::launcher::doctor {

struct Check {
  std::string_view name;  // of a finding, for users and for scripts; never changes
  std::function<Findings(const Node& node)> run;
  Grade if_it_hangs = Grade::unknown;
};

// In the order in which the findings are shown. The last ones use GPUs, and are left out unless `is_deep`.
std::span<const Check> all_checks(bool is_deep = false);

// --- limits
Findings check_files(const Node& node);
Findings check_processes(const Node& node);
Findings check_locked_memory(const Node& node);
Findings check_stack(const Node& node);
Findings check_ports(const Node& node);
// --- memory and CPUs
Findings check_memory(const Node& node);
Findings check_shared_memory(const Node& node);
Findings check_cpus(const Node& node);
Findings check_clock(const Node& node);
// --- network
Findings check_host_name(const Node& node);
Findings check_interfaces(const Node& node);
Findings check_rdma(const Node& node);
// --- GPUs
Findings check_gpus(const Node& node);
Findings check_driver(const Node& node);
Findings check_gpu_health(const Node& node);  // asks the driver's library
Findings check_pci_links(const Node& node);
// Says how much GPUs can exchange, by their NVLinks or PCIe links. Asks the driver's library.
Findings check_gpu_links(const Node& node);
// Returns the bandwidth of a PCIe link in each direction, in GB/s, from its speed as /sys shows it ("16.0 GT/s PCIe").
double pcie_rate(const std::string& speed, std::int64_t lanes);
// Returns the free memory of the GPU that has least of it, among those that the workers see. The failure says why it is
// not known.
base::Result<std::uint64_t> least_free_memory(const Node& node);
Findings check_peer_access(const Node& node);
Findings check_fabric(const Node& node);
// --- programs and their settings
Findings check_nccl(const Node& node);
// Returns the version of NCCL that programs load, as NCCL counts it (22803), or std::nullopt if it is unknown.
std::optional<int> nccl_number(const Node& node);
Findings check_variables(const Node& node);
Findings check_diagnosis(const Node& node);
Findings check_temporary(const Node& node);
Findings check_checkpoints(const Node& node);

}  // namespace ddp::launcher::doctor
