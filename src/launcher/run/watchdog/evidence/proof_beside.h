// ProofBeside proves whether the GPUs of this node can write to each other, beside workers that hang in a collective.
// The proof is `ddplaunch doctor` in a process of its own.
#pragma once

#include <functional>
#include <memory>
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

  // Calls `done` once, after a minute at most, with what the checks of the doctor have found. Does nothing after the
  // first call. The proof takes memory of the GPUs for some seconds. It proves nothing, and a finding says so, if the
  // driver does not say how much is free, or if the GPUs' programs share one context (MPS), which an error would end.
  // Only the GPUs of the workers count.
  void start(bool driver_answers, const LaunchPlan& plan, Done done);
  // Kills the proof if it is not over. `done` is not called any more.
  void end() { run_.reset(); }

 private:
  net::EventLoop& loop_;
  bool has_started_ = false;
  std::unique_ptr<ToolRun> run_;
};

// Returns the findings of the first node in the output of `ddplaunch doctor --json`, or one that says that it failed.
doctor::Findings findings_in(const std::string& output);

}  // namespace ddp::launcher
