// GpuCheck warns once if workers use other GPUs than the plan's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "launcher/run/ranks/rank_view.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

class GpuCheck {
 public:
  using FindGpus = std::function<std::vector<GpuFacts>()>;

  // `find_gpus` reads the GPUs again if the plan lacks UUIDs.
  GpuCheck(const LaunchPlan& plan, int first_rank, LogWriter log, FindGpus find_gpus);

  // Looks at the ranks of this node. The warning follows one call after the first difference, because the other ranks
  // choose their GPUs at nearly the same time, and the warning names all of them.
  void compare(std::span<const RankView> ranks);
  // Does the same when no other call follows.
  void finish(std::span<const RankView> ranks);

 private:
  enum class State : std::uint8_t { searching, found, reported };

  const LaunchPlan& plan_;
  std::optional<LaunchPlan> plan_with_uuids_;  // replaces the plan once a rank has reported its GPU
  const int first_rank_;
  const LogWriter log_;
  const FindGpus find_gpus_;
  State state_ = State::searching;
};

}  // namespace ddp::launcher
