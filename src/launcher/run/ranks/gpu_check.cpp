#include "launcher/run/ranks/gpu_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "launcher/start/plan/used_gpu.h"

namespace ddp::launcher {

GpuCheck::GpuCheck(const LaunchPlan& plan, int first_rank, LogWriter log, FindGpus find_gpus)
    : plan_(plan), first_rank_(first_rank), log_(std::move(log)), find_gpus_(std::move(find_gpus)) {}

void GpuCheck::compare(std::span<const RankView> ranks) {
  if (state_ == State::reported || !plan_.node_has_gpus) return;
  if (std::ranges::none_of(ranks, [](const RankView& rank) { return !rank.page.gpu_uuid.empty(); })) return;
  // A rank that reports its GPU has started it, so that the driver shows its UUID from now on.
  if (!plan_with_uuids_) plan_with_uuids_ = lacks_uuids(plan_) ? with_uuids(plan_, find_gpus_()) : plan_;
  const LaunchPlan& plan = *plan_with_uuids_;
  std::vector<UsedGpu> others;
  for (const RankView& rank : ranks) {
    const int local_rank = rank.rank - first_rank_;
    if (uses_other_gpu(plan, local_rank, rank.page.gpu_uuid)) others.push_back({local_rank, rank.page.gpu_uuid});
  }
  if (others.empty()) return;
  if (state_ == State::searching) {
    state_ = State::found;
    return;
  }
  state_ = State::reported;
  log_({LogLevel::warning, LogSource::job, describe_other_gpus(plan, first_rank_, others)});
}

void GpuCheck::finish(std::span<const RankView> ranks) {
  compare(ranks);
  compare(ranks);
}

}  // namespace ddp::launcher
