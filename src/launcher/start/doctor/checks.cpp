#include "launcher/start/doctor/checks.h"

namespace ddp::launcher::doctor {
namespace {

constexpr Check kChecks[] = {
    {"files", check_files},
    {"processes", check_processes},
    {"locked-memory", check_locked_memory},
    {"stack", check_stack},
    {"ports", check_ports},
    {"memory", check_memory},
    {"shared-memory", check_shared_memory},
    {"cpus", check_cpus},
    {"clock", check_clock},
    {"host-name", check_host_name},
    {"interfaces", check_interfaces},
    {"rdma", check_rdma},
    {"gpus", check_gpus},
    {"driver", check_driver},
    {"pci-links", check_pci_links},
    {"peer-access", check_peer_access},
    {"fabric", check_fabric},
    {"nccl", check_nccl},
    {"variables", check_variables},
    {"diagnosis", check_diagnosis},
    {"checkpoints", check_checkpoints, Grade::fail},
};

}  // namespace

std::span<const Check> all_checks() {
  return kChecks;
}

}  // namespace ddp::launcher::doctor
