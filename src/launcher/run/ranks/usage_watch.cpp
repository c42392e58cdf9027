#include "launcher/run/ranks/usage_watch.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/process_stat.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

constexpr auto nanoseconds_of(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

}  // namespace

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

bool UsageWatch::measure(std::span<RankView> ranks, std::uint64_t now, std::chrono::nanoseconds most) {
  const auto until = Clock::now() + most;
  bool has_measured = false;
  const std::size_t first = ranks.empty() ? 0 : next_ % ranks.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t index = (first + i) % ranks.size();
    RankView& view = ranks[index];
    Rank& rank = ranks_[view.rank - first_rank_];
    const bool is_due = rank.measured_at == 0 || now >= rank.measured_at + nanoseconds_of(limits::kUsageInterval);
    if (is_due && Clock::now() < until) {
      measure(rank, view, now);
      has_measured = true;
      next_ = index + 1;
    }
    view.usage = rank.meter.usage();
  }
  return has_measured;
}

// The search reads a file for each thread, so it takes place less often than the measurement.
void UsageWatch::measure(Rank& rank, const RankView& view, std::uint64_t now) {
  const int local_rank = view.rank - first_rank_;
  rank.measured_at = now;
  rank.meter.add_output(output_bytes_(local_rank), now);
  if (view.has_ended) return rank.meter.end();
  if (rank.searched_at == 0 || now >= rank.searched_at + nanoseconds_of(limits::kUsageSearch)) {
    rank.processes = processes_.processes_of(local_rank);
    rank.searched_at = now;
  }
  rank.meter.add(sample_usage(rank.processes), std::chrono::nanoseconds(now));
  const RankGpuUse gpu = gpus_.use_of(local_rank, rank.processes);
  rank.meter.set_gpu(gpu.share, gpu.memory_bytes);
}

}  // namespace ddp::launcher
