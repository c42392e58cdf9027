// ActivityWatch: measures what the processes of this node's ranks do while the others wait for them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "launcher/process/activity_meter.h"
#include "launcher/process/process_host.h"
#include "launcher/process/rank_view.h"
#include "launcher/watchdog/gpu_watch.h"

namespace ddp::launcher {

class ActivityWatch {
 public:
  using Observe = std::function<void(int rank, const ActivitySample& sample, std::chrono::nanoseconds now)>;

  // `output_bytes`: what a rank has printed so far, by local rank. `observe` is called with each sample.
  // `gpus` must outlive this.
  ActivityWatch(ProcessHost& processes, GpuWatch& gpus, int first_rank, std::uint16_t store_port,
                std::function<std::uint64_t(int local_rank)> output_bytes, Observe observe)
      : processes_(processes),
        gpus_(gpus),
        first_rank_(first_rank),
        store_port_(store_port),
        output_bytes_(std::move(output_bytes)),
        observe_(std::move(observe)) {}

  // Samples the ranks that run, and fills in RankView::activity. About once a second. It takes limits::kActivityTime at
  // most: of more ranks than that is enough for some are unknown.
  void measure(std::span<RankView> ranks, std::chrono::nanoseconds now);

  // The ranks were made to work: the windows that have begun say nothing.
  void discard_windows();

 private:
  ProcessHost& processes_;
  GpuWatch& gpus_;
  const int first_rank_;
  const std::uint16_t store_port_;
  const std::function<std::uint64_t(int local_rank)> output_bytes_;
  const Observe observe_;
  std::map<int, ActivityMeter> meters_;
  std::size_t next_ = 0;  // the rank to begin with, so that all have their turn
};

}  // namespace ddp::launcher
