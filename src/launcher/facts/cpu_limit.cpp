#include "launcher/facts/cpu_limit.h"

#include <sched.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/text.h"
#include "launcher/facts/cgroups.h"

namespace ddp::launcher {
namespace {

std::optional<double> ratio(const std::string& quota, const std::string& period) {
  const auto allowed = base::parse_number(quota);
  const auto every = base::parse_number(period);
  if (!allowed || !every || *allowed <= 0 || *every <= 0) return std::nullopt;
  return *allowed / *every;
}

std::optional<double> limit_of(const std::string& folder, bool version2) {
  // No limit is -1.
  if (!version2)
    return ratio(base::read_line(folder + "/cpu.cfs_quota_us"), base::read_line(folder + "/cpu.cfs_period_us"));
  // No limit is "max 100000".
  const std::vector<std::string> words = base::split(base::read_line(folder + "/cpu.max"), ' ');
  return words.size() == 2 ? ratio(words[0], words[1]) : std::nullopt;
}

}  // namespace

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
