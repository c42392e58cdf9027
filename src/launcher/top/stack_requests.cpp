#include "launcher/top/stack_requests.h"

#include <utility>

namespace ddp::launcher {

std::vector<std::string> stack_lines(const RankStacks& stacks) {
  std::vector<std::string> lines;
  if (!stacks.source.empty()) lines.push_back("source: " + stacks.source);
  for (const ThreadStack& thread : stacks.threads) {
    std::string title = thread.tid == 0 ? "thread" : "thread " + std::to_string(thread.tid);
    if (!thread.name.empty()) title += " (" + thread.name + ")";
    lines.push_back(title + ":");
    for (const std::string& frame : thread.frames) lines.push_back("  " + frame);
  }
  for (const std::string& missing : stacks.missing) lines.push_back("not available: " + missing);
  return lines;
}

void StackRequests::take(int rank, int local_rank, Reply reply) {
  waiting_.push_back({{rank, local_rank}, std::move(reply)});
  if (waiting_.size() == 1) begin();
}

void StackRequests::begin() {
  taker_.take({waiting_.front().target}, StackMeans::gentle, [this](const std::vector<RankStacks>& stacks) {
    const Reply reply = std::move(waiting_.front().reply);
    reply(stacks.empty() ? std::vector<std::string>() : stack_lines(stacks.front()));
    waiting_.pop_front();
    if (!waiting_.empty()) begin();
  });
}

}  // namespace ddp::launcher
