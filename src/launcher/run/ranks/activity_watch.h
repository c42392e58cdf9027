// ActivityWatch measures the activity of this node's ranks while other ranks wait for them. GpuWatch measures the
// activity of their GPUs. It reads the output of ddp_gpu_reader, which runs only while GpuWatch::add() or use_of() is
// called.
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

#include "launcher/run/process/gpu_counters.h"
#include "launcher/run/process/process_host.h"
#include "launcher/run/process/tool_run.h"
#include "launcher/run/ranks/activity_meter.h"
#include "launcher/run/ranks/process_activity.h"
#include "launcher/run/ranks/rank_view.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Used only from the event loop's thread.
class GpuWatch {
 public:
  // On a node without GPUs the reader is not started.
  GpuWatch(net::EventLoop& loop, bool node_has_gpus) : loop_(loop), node_has_gpus_(node_has_gpus) {}

  // Sets the worker's CUDA_VISIBLE_DEVICES. std::nullopt means that it sees all GPUs.
  void sees(int local_rank, std::optional<std::string> cuda_visible_devices) {
    visible_[local_rank] = std::move(cuda_visible_devices);
  }

  // Adds the activity of this rank's GPUs to `sample`. If that is unknown, marks the sample as incomplete. It is
  // unknown for some seconds after the first call, while the driver does not answer, and after the reader has failed.
  void add(int local_rank, std::span<const pid_t> processes, ActivitySample& sample);
  // Returns the use of this rank's GPUs, for the views of a job. It is unknown in the same cases.
  RankGpuUse use_of(int local_rank, std::span<const pid_t> processes);

 private:
  using Clock = std::chrono::steady_clock;
  void read();
  bool is_fresh() const;

  net::EventLoop& loop_;
  const bool node_has_gpus_;
  std::map<int, std::optional<std::string>> visible_;
  std::unique_ptr<ToolRun> run_;
  bool has_failed_ = false;
  std::string text_;  // incomplete last line of the reader's output
  std::vector<GpuCounters> node_gpus_;
  std::optional<Clock::time_point> read_at_;  // when `node_gpus_` was updated
  std::unique_ptr<net::Watch> idle_;
};

class ActivityWatch {
 public:
  using Observe = std::function<void(int rank, const ActivitySample& sample, std::chrono::nanoseconds now)>;

  // `output_bytes` returns how many bytes the rank with this local rank has printed so far. `observe` is called with
  // each sample. `gpus` must outlive this object.
  ActivityWatch(ProcessHost& processes, GpuWatch& gpus, int first_rank, std::uint16_t store_port,
                std::function<std::uint64_t(int local_rank)> output_bytes, Observe observe)
      : processes_(processes),
        gpus_(gpus),
        first_rank_(first_rank),
        store_port_(store_port),
        output_bytes_(std::move(output_bytes)),
        observe_(std::move(observe)) {}

  // Samples the running ranks and fills in RankView::activity. Call it about once per second. A call takes at most
  // limits::kActivityTime. If that is too short for all ranks, the rest stays unknown, and the next call begins with
  // them.
  void measure(std::span<RankView> ranks, std::chrono::nanoseconds now);

  // Discards the current windows: signals or tools have woken the ranks, so the windows say nothing about the program.
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
  std::size_t next_ = 0;  // index of the rank to begin with, so that each rank gets a turn
};

}  // namespace ddp::launcher
