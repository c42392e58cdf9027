// GpuWatch: what the GPUs of this node's ranks do, by ddp_gpu_reader, which runs only while it is asked for.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/process/gpu_counters.h"
#include "launcher/process/process_activity.h"
#include "launcher/watchdog/stacks/tool_run.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Belongs to the loop's thread.
class GpuWatch {
 public:
  // On a node without GPUs the reader is not started.
  GpuWatch(net::EventLoop& loop, bool node_has_gpus) : loop_(loop), node_has_gpus_(node_has_gpus) {}

  // What the environment of a worker tells CUDA to use; nothing: all GPUs.
  void sees(int local_rank, std::optional<std::string> cuda_visible_devices);

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

}  // namespace ddp::launcher
