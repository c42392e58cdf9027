// ActivityWatch: measures what the processes of this node's ranks do while the others wait for them; and GpuWatch: what
// their GPUs do, by ddp_gpu_reader, which runs only while it is asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/process/activity_meter.h"
#include "launcher/process/gpu_counters.h"
#include "launcher/process/process_activity.h"
#include "launcher/process/process_host.h"
#include "launcher/process/rank_view.h"
#include "launcher/watchdog/stacks/tool_run.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Belongs to the loop's thread.
class GpuWatch {
 public:
  // On a node without GPUs the reader is not started.
  GpuWatch(net::EventLoop& loop, bool node_has_gpus) : loop_(loop), node_has_gpus_(node_has_gpus) {}

  // What the environment of a worker tells CUDA to use; nothing: all GPUs.
  void sees(int local_rank, std::optional<std::string> cuda_visible_devices) {
    visible_[local_rank] = std::move(cuda_visible_devices);
  }

  // Adds to `sample` what the GPUs of this rank have done. If that is not known, the sample is not complete: for some
  // seconds after the first call, and for good if the driver does not answer.
  void add(int local_rank, std::span<const pid_t> processes, ActivitySample& sample);

 private:
  using Clock = std::chrono::steady_clock;
  void read();

  net::EventLoop& loop_;
  const bool node_has_gpus_;
  std::map<int, std::optional<std::string>> visible_;
  std::unique_ptr<ToolRun> run_;
  bool has_failed_ = false;
  std::string text_;  // of the next line
  std::vector<GpuCounters> node_gpus_;
  std::optional<Clock::time_point> read_at_;  // when `node_gpus_` was
  std::unique_ptr<net::Watch> idle_;
};

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
  void discard_windows() {
    for (auto& [local_rank, meter] : meters_) meter.discard_window();
  }

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
