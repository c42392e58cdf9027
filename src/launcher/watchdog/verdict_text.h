// A verdict in words. The console, the summary and the other nodes of a job are told the same.
#pragma once

#include <string>
#include <vector>

#include "launcher/watchdog/verdict.h"

namespace ddp::launcher {

// "rank 1 has not called all_reduce f32[8] (#7 of world), in which ranks 0, 2 wait  [DDP-H03 not called]".
std::string hang_headline(const Verdict& verdict);

// "rank 1", "ranks 0, 2-3".
std::string ranks_text(const std::vector<int>& ranks);

// "all_reduce f32[8] (#7 of world)".
std::string call_text(const Verdict& verdict);

}  // namespace ddp::launcher
