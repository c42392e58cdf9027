#include "launcher/start/facts/resource_limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/start/facts/cgroups.h"

namespace ddp::launcher {
namespace {

rlimit limit_of(__rlimit_resource_t resource) {
  rlimit value{};
  ::getrlimit(resource, &value);
  return value;
}

std::uint64_t number(rlim_t value) {
  return value == RLIM_INFINITY ? ResourceLimits::kUnlimited : value;
}

// Returns `limit` if no descriptor is left for listing the open ones.
std::uint64_t count_open_descriptors(std::uint64_t limit) {
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  if (error) return error == std::errc::too_many_files_open ? limit : 0;
  constexpr std::ptrdiff_t kOwn = 4;  // standard input, output, error, and the listed directory
  return static_cast<std::uint64_t>(
      std::max<std::ptrdiff_t>(std::distance(begin(descriptors), end(descriptors)) - kOwn, 0));
}

std::optional<double> ratio(const std::string& quota, const std::string& period) {
  const auto allowed = base::parse_number(quota);
  const auto every = base::parse_number(period);
  if (!allowed || !every || *allowed <= 0 || *every <= 0) return std::nullopt;
  return *allowed / *every;
}

std::optional<double> limit_of(const std::string& folder, bool version2) {
  // The value -1 means that there is no limit.
  if (!version2)
    return ratio(base::read_line(folder + "/cpu.cfs_quota_us"), base::read_line(folder + "/cpu.cfs_period_us"));
  // The text "max 100000" means that there is no limit.
  const std::vector<std::string> words = base::split(base::read_line(folder + "/cpu.max"), ' ');
  return words.size() == 2 ? ratio(words[0], words[1]) : std::nullopt;
}

}  // namespace

ResourceLimits read_resource_limits() {
  ResourceLimits limits;
  limits.descriptors = number(limit_of(RLIMIT_NOFILE).rlim_max);
  limits.open_descriptors = count_open_descriptors(limits.descriptors);
  if (::geteuid() != 0) limits.processes = number(limit_of(RLIMIT_NPROC).rlim_cur);
  limits.locked_memory = number(limit_of(RLIMIT_MEMLOCK).rlim_cur);
  limits.stack = number(limit_of(RLIMIT_STACK).rlim_cur);
  std::error_code ignored;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", ignored);
  limits.has_rdma = !ignored && devices != std::filesystem::directory_iterator();
  return limits;
}

std::optional<std::string> descriptor_shortage(const ResourceLimits& limits, std::uint64_t needed,
                                               const std::string& purpose) {
  const std::uint64_t open = limits.open_descriptors;
  if (limits.descriptors >= needed + open) return std::nullopt;
  return "the system allows only " + std::to_string(limits.descriptors) + " file descriptors (ulimit -Hn), but " +
         purpose + " may need " + std::to_string(needed) +
         (open > 0 ? ", and " + std::to_string(open) + " are open already" : "") +
         ". Raise the limit, for example with ulimit -n " +
         std::to_string(std::max<std::uint64_t>(needed + open, limits::kFewDescriptors)) + ".";
}

std::vector<std::string> limit_notes(const ResourceLimits& limits, int gpus) {
  std::vector<std::string> notes;
  if (limits.descriptors < limits::kFewDescriptors) {
    notes.push_back("only " + std::to_string(limits.descriptors) +
                    " file descriptors are allowed (ulimit -Hn); data loaders and NCCL often need thousands");
  }
  if (limits.has_rdma && limits.locked_memory != ResourceLimits::kUnlimited) {
    notes.push_back("only " + base::human_bytes(limits.locked_memory) +
                    " may be locked in memory (ulimit -l), but there is an RDMA device: NCCL may fail to register its "
                    "buffers. Use ulimit -l unlimited");
  }
  if (gpus > 0 && limits.stack == ResourceLimits::kUnlimited) {
    notes.emplace_back(
        "the stack size is unlimited (ulimit -s), so threads get small stacks, in which NCCL before 2.28 may crash. "
        "Use ulimit -s 8192");
  }
  return notes;
}

std::vector<int> affinity_cpus() {
  // The kernel refuses a set that is smaller than its own number of CPUs.
  for (int most = CPU_SETSIZE; most <= (1 << 18); most *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(most));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    CPU_ZERO_S(bytes, set);
    std::vector<int> cpus;
    if (::sched_getaffinity(0, bytes, set) == 0) {
      for (int cpu = 0; cpu < most; ++cpu) {
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  return {0};
}

std::optional<double> cgroup_cpu_limit(const std::string& root) {
  std::optional<double> smallest;
  for (const Cgroup& group : own_cgroups_with("cpu", root)) {
    const auto limit = limit_of(root + group.folder, group.version2);
    if (limit) smallest = std::min(*limit, smallest.value_or(*limit));
  }
  return smallest;
}

int usable_cpus(int affinity, std::optional<double> limit) {
  if (!limit || *limit >= affinity) return std::max(1, affinity);
  // A quota of exactly two CPUs must not become three by rounding errors.
  return std::max(1, static_cast<int>(std::ceil(*limit - 1e-9)));
}

}  // namespace ddp::launcher
