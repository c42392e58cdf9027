// StackTaker: the stacks of many workers at the same moment, from whatever can give them.
//
//   the runtime's signal handler (addresses, named here) ── Python: py-spy ── else: eu-stack, or gdb
//   by gentle means: py-spy without stopping the program ── else: where in the kernel the threads wait
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/process_host.h"
#include "launcher/stacks/stack_text.h"
#include "launcher/stacks/tool_run.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct StackTarget {
  int rank = 0;
  int local_rank = 0;
};

class StackTaker {
 public:
  using Done = std::function<void(std::vector<RankStacks> stacks)>;

  StackTaker(net::EventLoop& loop, ProcessHost& processes) : loop_(loop), processes_(processes) {}
  ~StackTaker();
  StackTaker(const StackTaker&) = delete;
  StackTaker& operator=(const StackTaker&) = delete;

  // Not while is_taking(). A program that may go on must not be disturbed: `means`. `done` is called once, within
  // limits::kStackTime, with an entry for each target that says what is missing; never if this is destroyed before.
  void take(const std::vector<StackTarget>& targets, StackMeans means, Done done);
  bool is_taking() const { return done_ != nullptr; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Asked {
    StackTarget target;
    StackRequest request;
    RankStacks result;
    std::vector<RawStack> raw;
    std::unique_ptr<ToolRun> tool;
    bool is_done = false;
  };

  void run_tool(Asked& asked);
  static void take_from_kernel(Asked& asked);
  void look();
  void name_frames();
  void finish();

  net::EventLoop& loop_;
  ProcessHost& processes_;
  Done done_;
  StackMeans means_ = StackMeans::any;
  std::vector<Asked> asked_;
  Clock::time_point began_;
  std::unique_ptr<net::Watch> timer_;
  struct Naming;
  std::shared_ptr<Naming> naming_;  // shared with the thread that does it
  std::unique_ptr<net::Watch> named_;
};

}  // namespace ddp::launcher
