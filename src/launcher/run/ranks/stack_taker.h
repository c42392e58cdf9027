// StackTaker takes the stacks of many workers at the same moment. By any means, it tries in this order:
//
//   the runtime's signal handler (addresses, named by ddp_stack_reader) ── Python: py-spy ── else: eu-stack, or gdb ──
//   else: copied stacks, named by ddp_stack_reader
//
// By gentle means, which stop nothing, it tries in this order:
//
//   Python, unless its native functions are asked for: py-spy ── else: copied stacks, named by ddp_stack_reader ──
//   else: where in the kernel the threads wait
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/side_thread.h"
#include "launcher/run/process/tool_run.h"
#include "launcher/run/ranks/rank_probe.h"
#include "launcher/run/stacks/stack_capture.h"
#include "launcher/run/stacks/stack_text.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct StackTarget {
  int rank = 0;
  int local_rank = 0;
  bool spins = false;  // its first thread is held for less than a millisecond, although `gentle_native` holds no others
};

class StackTaker {
 public:
  using Done = std::function<void(std::vector<RankStacks> stacks)>;

  StackTaker(net::EventLoop& loop, RankProbe& probe) : loop_(loop), probe_(probe) {}
  ~StackTaker();

  // Must not be called while is_taking(). `means` must not disturb a program that may continue. `done` is called once,
  // within limits::kStackTime, with an entry for each target that says what is missing. It is never called if this
  // object is destroyed before.
  void take(const std::vector<StackTarget>& targets, StackMeans means, Done done);
  bool is_taking() const { return done_ != nullptr; }

 private:
  using Clock = std::chrono::steady_clock;
  using Captures = std::map<pid_t, StackCapture>;
  struct Tool;
  struct Asked {
    StackTarget target;
    StackRequest request;
    RankStacks result;
    std::vector<RawStack> raw;
    std::span<const Tool> tools;    // tools that are still to be tried
    std::unique_ptr<ToolRun> tool;  // the tool that runs
    const Tool* running = nullptr;  // description of `tool`
    std::vector<pid_t> children;    // child processes whose stacks py-spy still has to take
    bool is_done = false;
  };

  static std::span<const Tool> tools_for(bool python, StackMeans means);
  bool has_signal(const Asked& asked) const { return asked.request.obstacle.empty(); }
  void copy_stacks();
  void ask_tools();
  void run_next_tool(Asked& asked);
  void tool_ended(Asked& asked, const Tool& tool, const std::string& output);
  void take_next_child(Asked& asked, const Tool& tool);
  static void take_from_kernel(Asked& asked);
  void poll();
  void name_frames();
  void finish();

  net::EventLoop& loop_;
  RankProbe& probe_;
  Done done_;
  StackMeans means_ = StackMeans::any;
  std::vector<Asked> asked_;
  Clock::time_point began_;
  std::unique_ptr<net::Watch> timer_;
  std::optional<base::SideThread<Captures>> copying_;
  Captures captures_;
  std::unique_ptr<ToolRun> naming_;  // names the addresses that programs have reported
  std::map<int, std::vector<ThreadStack>> names_;
  std::unique_ptr<net::Watch> over_;  // fires when the copying thread is done
};

}  // namespace ddp::launcher
