// StackRequests takes the stacks of single ranks of this node for views, without disturbing the program.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "launcher/watchdog/stacks/stack_taker.h"

namespace ddp::launcher {

// Returns the lines that show these stacks: each thread with its frames, the innermost one first. It is pure.
std::vector<std::string> stack_lines(const RankStacks& stacks);

// Belongs to the event loop's thread. Requests are carried out one at a time, in their order.
class StackRequests {
 public:
  using Reply = std::function<void(const std::vector<std::string>& lines)>;

  StackRequests(net::EventLoop& loop, ProcessHost& processes) : taker_(loop, processes) {}

  // Calls `reply` once, within limits::kStackTime after the requests before it, unless this object is destroyed.
  void take(int rank, int local_rank, Reply reply);

 private:
  struct Request {
    StackTarget target;
    Reply reply;
  };
  void begin();

  std::deque<Request> waiting_;  // the first one is being carried out; each view has at most one
  StackTaker taker_;
};

}  // namespace ddp::launcher
