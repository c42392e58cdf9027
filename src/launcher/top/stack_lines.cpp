#include "launcher/top/stack_lines.h"

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

}  // namespace ddp::launcher
