#include "launcher/watchdog/gpu_check.h"

#include <utility>
#include <vector>

#include "launcher/plan/used_gpu.h"

namespace ddp::launcher {

GpuCheck::GpuCheck(const LaunchPlan& plan, int first_rank, LogWriter log)
    : plan_(plan), first_rank_(first_rank), log_(std::move(log)) {}

void GpuCheck::look(std::span<const RankView> ranks) {
  if (state_ == State::reported || !plan_.node_has_gpus) return;
  std::vector<UsedGpu> others;
  for (const RankView& rank : ranks) {
    const int local_rank = rank.rank - first_rank_;
    if (uses_other_gpu(plan_, local_rank, rank.page.gpu_uuid)) others.push_back({local_rank, rank.page.gpu_uuid});
  }
  if (others.empty()) return;
  if (state_ == State::looking) {
    state_ = State::found;
    return;
  }
  state_ = State::reported;
  log_({LogLevel::warning, LogSource::job, describe_other_gpus(plan_, first_rank_, others)});
}

void GpuCheck::finish(std::span<const RankView> ranks) {
  look(ranks);
  look(ranks);
}

}  // namespace ddp::launcher
