// TimedFaults injects faults into workers at a given time (--inject rank=R,at=10s,kind=kill), whatever their program
// is.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/run/job/worker_group.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Returns whether --inject kills this rank in this attempt, at a time or at a call. This function is pure.
bool has_injected_kill(const LaunchPlan& plan, int attempt, int rank);

// Belongs to one attempt. After its destruction, no further fault happens, and stopped workers stay stopped.
class TimedFaults {
 public:
  // The times count from now on. Only faults of this attempt and of this node's ranks count. All arguments must outlive
  // this object.
  TimedFaults(net::Timers& timers, WorkerGroup& workers, const LaunchPlan& plan, const Placement& placement,
              const LogWriter& log);

  // Returns the number of faults of this attempt and node that have not happened so far.
  int pending() const { return pending_; }

 private:
  void later(std::chrono::milliseconds time, std::function<void()> action) {
    watches_.push_back(timers_.at(timers_.now() + time, std::move(action)));
  }
  void send(int rank, int signal, const std::string& what);

  net::Timers& timers_;
  WorkerGroup& workers_;
  const int first_rank_;
  const LogWriter& log_;
  int pending_ = 0;
  std::vector<std::unique_ptr<net::Watch>> watches_;
};

}  // namespace ddp::launcher
