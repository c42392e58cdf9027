// Supervisor: the thin driver between JobState and the world, for one attempt.
#pragma once

#include <functional>
#include <string>

#include "launcher/output/output_pump.h"
#include "launcher/process/memory_events.h"
#include "launcher/process/process_host.h"
#include "launcher/process/run_directory.h"
#include "launcher/supervise/outcome.h"
#include "launcher/supervise/rank_exchange.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct SupervisorParts {
  net::EventLoop& loop;
  ProcessHost& processes;
  const LaunchPlan& plan;
  const Placement& placement;
  const RunDirectory& directory;
  OutputPump& output;
  const std::string& last_failure;  // of the attempt before, for the workers; empty: this is the first
  std::function<void(const std::string& line)> tell;
  std::function<void(const Event& event)> observe;       // every event, before it is acted on
  std::function<void(const JobOutcome& so_far)> report;  // to the hub: a cause here, or a better one
  RankExchange& exchange;                                // with other nodes, if there are any
  std::function<void(const Event& event)>& inbox;        // set here while the attempt runs; takes events from outside
};

// Starts all workers, waits, and returns when every one of them has ended or cannot be killed.
JobOutcome supervise(const SupervisorParts& parts);

}  // namespace ddp::launcher
