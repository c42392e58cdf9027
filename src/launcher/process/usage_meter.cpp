#include "launcher/process/usage_meter.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/file.h"
#include "launcher/process/process_sample.h"

namespace ddp::launcher {

std::optional<ProcessUsage> parse_process_usage(std::string_view stat) {
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::vector<std::string> fields = fields_of_stat(stat);
  const auto user = stat_number(fields, 14);
  const auto system = stat_number(fields, 15);
  const auto started = stat_number(fields, 22);
  const auto rss_pages = stat_number(fields, 24);
  if (!user || !system || !started || !rss_pages) return std::nullopt;
  return ProcessUsage{0, *started, *user + *system, *rss_pages * page_bytes};
}

std::vector<ProcessUsage> sample_usage(std::span<const pid_t> processes) {
  std::vector<ProcessUsage> usage;
  for (const pid_t pid : processes) {
    auto process = parse_process_usage(base::read_file("/proc/" + std::to_string(pid) + "/stat"));
    if (!process) continue;
    process->pid = pid;
    usage.push_back(*process);
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
