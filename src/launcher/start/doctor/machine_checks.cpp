#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/start/doctor/checks.h"
#include "launcher/start/facts/memory_room.h"

namespace ddp::launcher::doctor {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kLittleMemory = 1024 * kMiB;  // per worker: PyTorch with CUDA takes about this before a model
constexpr std::uint64_t kTooLittleMemory = 128 * kMiB;
// Docker's default. NCCL takes 4 MiB for a channel and a peer, and a loader puts its batches there.
constexpr std::uint64_t kSmallSharedMemory = 64 * kMiB;
constexpr std::uint64_t kSharedMemoryPerWorker = 64 * kMiB;

// Returns errno, or 0.
int error_of_creating_in(const std::string& folder) {
  std::string file = folder + "/.ddplaunch_doctor.XXXXXX";
  const base::UniqueFd fd(::mkostemp(file.data(), O_CLOEXEC));
  if (!fd) return errno;
  ::unlink(file.c_str());
  return 0;
}

std::string per_worker(const Node& node, const std::string& amount) {
  return amount + " for " + base::counted(node.workers, "worker");
}

// Returns the GPUs none of whose near CPUs may be used.
std::vector<std::string> far_gpus(const Node& node, const std::set<int>& allowed) {
  std::vector<std::string> far;
  for (const GpuFacts& gpu : node.gpus) {
    const std::set<int> near = cpus_of(node.line("/sys/bus/pci/devices/" + gpu.pci_address + "/local_cpulist"));
    const bool is_near = std::ranges::any_of(near, [&](int cpu) { return allowed.contains(cpu); });
    if (!near.empty() && !is_near) far.push_back(std::to_string(gpu.index));
  }
  return far;
}

}  // namespace

Findings check_memory(const Node& node) {
  const std::uint64_t room = memory_room(node.root);
  if (node.text("/proc/meminfo").empty()) return {unknown("/proc/meminfo cannot be read")};
  const std::uint64_t each = room / static_cast<std::uint64_t>(node.workers);
  const std::string text = per_worker(node, base::human_bytes(room) + " of memory are free");
  if (each >= kLittleMemory) return {ok(text)};
  return {(each < kTooLittleMemory ? fail : warn)(
      "only " + text + ", so the kernel may kill one of them",
      "start fewer workers with --nproc-per-node, look for other jobs with ps aux --sort=-rss, or raise the limit of "
      "the container (docker run --memory, the memory limit of the pod, sbatch --mem)")};
}

Findings check_shared_memory(const Node& node) {
  const std::string remedy =
      "docker run --shm-size=8g or --ipc=host. In Kubernetes: an emptyDir with medium: Memory at /dev/shm";
  if (!node.exists("/dev/shm"))
    return {fail("there is no /dev/shm, which NCCL, Gloo and data loaders use", "mount -t tmpfs tmpfs /dev/shm")};
  if (const int error = error_of_creating_in(node.root + "/dev/shm"); error != 0) {
    return {fail(std::string("no file can be created in /dev/shm: ") + std::strerror(error),
                 error == EROFS ? "mount -o remount,rw /dev/shm" : "chmod 1777 /dev/shm, and ls -ld /dev/shm")};
  }
  const auto files = node.file_system("/dev/shm");
  if (!files) return {unknown("the size of /dev/shm cannot be read")};
  const std::string text = per_worker(
      node, "/dev/shm has " + base::human_bytes(files->free_bytes) + " free of " + base::human_bytes(files->bytes));
  if (files->bytes == 0) return {ok("/dev/shm has no limit of its own")};
  const std::uint64_t needed = kSharedMemoryPerWorker * static_cast<std::uint64_t>(node.workers);
  // NCCL needs it. Gloo and loaders may.
  if (files->bytes <= kSmallSharedMemory)
    return {(node.gpus.size() > 1 ? fail : warn)(text + ". NCCL and data loaders need more", remedy)};
  if (files->free_bytes < needed) {
    return {warn(text + ". Files of jobs that have ended may fill it",
                 "ls -l /dev/shm, and remove what no running program uses (fuser -v FILE). Or " + remedy)};
  }
  return {ok(text)};
}

Findings check_cpus(const Node& node) {
  const std::set<int> allowed = node.allowed_cpus();
  if (allowed.empty()) return {unknown("/proc/self/status does not show which CPUs may be used")};
  Findings findings;
  const auto quota = cgroup_cpu_limit(node.root);
  const int usable = usable_cpus(static_cast<int>(allowed.size()), quota);
  const std::string text = base::counted(usable, "CPU") +
                           (quota && usable < std::ssize(allowed) ? " by the quota of its control group" : "");
  if (usable < node.workers) {
    findings.push_back(warn(per_worker(node, "only " + text) + ", so each waits for the others' CPU",
                            "sbatch --cpus-per-task, docker run --cpus, or fewer workers with --nproc-per-node"));
  } else {
    findings.push_back(ok(per_worker(node, text)));
  }
  if (const auto far = far_gpus(node, allowed); !far.empty()) {
    findings.push_back(warn(
        base::plural(far.size(), "GPU ", "GPUs ") + base::join(far, ", ") + base::plural(far.size(), " is", " are") +
            " at another NUMA node than the CPUs that may be used, so each transfer crosses the sockets",
        "ask for CPUs near the GPUs: sbatch --gres-flags=enforce-binding, docker run --cpuset-cpus"));
  }
  return findings;
}

Findings check_clock(const Node& node) {
  if (!node.is_synchronized) return {unknown("the kernel does not say whether a time server sets the clock")};
  if (*node.is_synchronized) return {ok("a time server sets the clock")};
  if (node.nodes <= 1) return {ok("no time server sets the clock, which matters only between nodes")};
  return {warn("no time server sets the clock, so the logs of nodes cannot be compared, and tokens may be out of date",
               "timedatectl set-ntp true, or systemctl enable --now chronyd")};
}

}  // namespace ddp::launcher::doctor
