#include "launcher/start/doctor/checks.h"

#include <iterator>

#include "launcher/start/doctor/peer_proof.h"

namespace ddp::launcher::doctor {

std::span<const Check> all_checks(bool is_deep) {
  constexpr std::size_t kDeepChecks = 1;
  // Made when the doctor runs, and not at each start of a job.
  static const Check kChecks[] = {
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
      {"gpu-health", check_gpu_health, Grade::warn},
      {"pci-links", check_pci_links},
      {"gpu-links", check_gpu_links},
      {"peer-access", check_peer_access},
      {"fabric", check_fabric},
      {"nccl", check_nccl},
      {"variables", check_variables},
      {"diagnosis", check_diagnosis},
      {"temporary", check_temporary, Grade::warn},
      {"checkpoints", check_checkpoints, Grade::warn},
      {"peer-writes", check_peer_writes, Grade::fail},
  };
  return std::span(kChecks).first(std::size(kChecks) - (is_deep ? 0 : kDeepChecks));
}

}  // namespace ddp::launcher::doctor
