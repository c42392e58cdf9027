#include "launcher/ranks/usage_meter.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/process_stat.h"

namespace ddp::launcher {

std::vector<ProcessUsage> sample_usage(std::span<const pid_t> processes) {
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<ProcessUsage> usage;
  for (const pid_t pid : processes) {
    const auto stat = base::read_process_stat(pid);
    if (stat) usage.push_back({pid, stat->started, stat->cpu_ticks, stat->rss_pages * page_bytes});
  }
  return usage;
}

void UsageMeter::add(std::vector<ProcessUsage> processes, std::chrono::nanoseconds now) {
  static const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::uint64_t rss_bytes = 0;
  std::uint64_t ticks = 0;
  for (const ProcessUsage& process : processes) {
    rss_bytes += process.rss_bytes;
    const auto then = std::ranges::find_if(before_, [&](const ProcessUsage& other) {
      return other.pid == process.pid && other.started == process.started;
    });
    // A process that was not seen before may have begun long ago, so its time says nothing.
    if (then != before_.end() && process.cpu_ticks > then->cpu_ticks) ticks += process.cpu_ticks - then->cpu_ticks;
  }
  usage_.rss_bytes = processes.empty() ? std::nullopt : std::optional(rss_bytes);
  if (processes.empty()) usage_.cpus.reset();
  if (seen_ && now > *seen_ && !processes.empty()) {
    usage_.cpus = static_cast<double>(ticks) / ticks_per_second / std::chrono::duration<double>(now - *seen_).count();
  }
  seen_ = now;
  before_ = std::move(processes);
}

void UsageMeter::add_output(std::uint64_t bytes, std::uint64_t now) {
  if (bytes != std::exchange(usage_.output_bytes, bytes)) usage_.printed_at = now;
}

void UsageMeter::end() {
  before_.clear();
  seen_.reset();
  usage_ = RankUsage{.output_bytes = usage_.output_bytes, .printed_at = usage_.printed_at};
}

}  // namespace ddp::launcher
