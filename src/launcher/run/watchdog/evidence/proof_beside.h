// ProofBeside proves whether the GPUs of this node can write to each other, beside workers that hang in a collective.
// The proof is `ddplaunch doctor` in a process of its own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "launcher/run/process/tool_run.h"
#include "launcher/start/doctor/finding.h"
#include "launcher/start/plan/launch_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Used only from the event loop's thread.
class ProofBeside {
 public:
  using Done = std::function<void(doctor::Findings findings)>;

  explicit ProofBeside(net::EventLoop& loop) : loop_(loop) {}

  // Calls `done` once, after 75 s at most, with what the checks of the doctor have found. Does nothing after the first
  // call. Tries the GPUs that the plan gives to the workers. Proves nothing, and a finding says so, if too little of
  // their memory is free, or if their programs share one context (MPS), which an error would end.
  void start(const LaunchPlan& plan, Done done);
  bool is_running() const { return limit_ != nullptr; }
  // Kills the proof if it is not over. `done` is not called any more.
  void end();

 private:
  net::EventLoop& loop_;
  bool has_started_ = false;
  std::unique_ptr<ToolRun> run_;
  std::unique_ptr<net::Watch> limit_;  // set as long as it runs
};

// Returns whether one of these processes below `proc` ("/proc" except in tests) has a device file of a GPU open.
bool use_gpus(std::span<const pid_t> processes, const std::string& proc);

// Returns the findings of the first node in the output of `ddplaunch doctor --json`, or one that says that it failed.
doctor::Findings findings_in(const std::string& output);

}  // namespace ddp::launcher
