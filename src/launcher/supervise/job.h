// Job: this node's part in a job, of one node or of several, attempt after attempt, as the hub says.
#pragma once

#include <functional>
#include <string>

#include "launcher/output/output_pump.h"
#include "launcher/plan/placement.h"
#include "launcher/process/process_host.h"
#include "launcher/process/run_directory.h"
#include "launcher/supervise/outcome.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Called for what happens in a job; the console, the event log and the summary are fed from here. The loop's thread
// calls them, so none may block unless its comment says that it does.
struct JobObserver {
  std::function<void()> looks_for_nodes;  // of several
  std::function<void(const Placement& placement)> attempt_begins;
  std::function<void(const Event& event)> event;
  // All of the attempt's processes are gone. `next` says what comes then: "" for nothing. `is_last`: nothing else waits
  // for the caller, which may block until the user has been told.
  std::function<void(const JobOutcome& outcome, const std::string& next, bool is_last)> attempt_ended;
  // The user ended the job while it waited for the next attempt. May block.
  std::function<void(const JobOutcome& outcome)> ended_between_attempts;
  std::function<void(const std::string& line)> tell;
  std::function<void(const std::string& line)> warn;
  std::function<void(const std::string& line)> inform;  // not with --quiet
};

struct JobParts {
  net::EventLoop& loop;
  ProcessHost& processes;
  const LaunchPlan& plan;
  RunDirectory& directory;
  OutputPump& output;
  std::function<void(const Event& event)>& inbox;  // set here; takes events from outside, at any time
  JobObserver observer;
};

// Returns the last attempt's outcome, or why an attempt could not begin. Nothing of the job runs any more.
base::Result<JobOutcome> run_job(const JobParts& parts);

}  // namespace ddp::launcher
