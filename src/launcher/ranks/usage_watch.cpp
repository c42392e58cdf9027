#include "launcher/ranks/usage_watch.h"

#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

constexpr auto nanoseconds_of(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count());
}

}  // namespace

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
