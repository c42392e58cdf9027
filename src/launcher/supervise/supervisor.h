// Supervisor: the thin driver between JobState and the world.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/process/process_host.h"
#include "launcher/process/run_directory.h"
#include "launcher/supervise/job_state.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct SupervisorParts {
  net::EventLoop& loop;
  ProcessHost& processes;
  const LaunchPlan& plan;
  const NodeAssignment& assignment;
  const RunDirectory& directory;
  std::function<void(const std::string& line)> tell;
  std::function<void(int signal)>& on_signal;  // set here while the job runs; called for each signal to the launcher
};

// Starts all workers, waits, and returns when every one of them has ended or cannot be killed.
JobOutcome supervise(const SupervisorParts& parts);

}  // namespace ddp::launcher
