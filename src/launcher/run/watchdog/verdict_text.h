// Describes a verdict in words. The console, the summary and the other nodes of a job get the same text.
#pragma once

#include <string>

#include "launcher/run/ranks/verdict.h"

namespace ddp::launcher {

// Returns text such as "rank 1 has not called all_reduce f32[8] (#7 of world), in which ranks 0, 2 wait  [DDP-H03 not
// called]".
std::string hang_headline(const Verdict& verdict);

// Returns text such as "all_reduce f32[8] (#7 of world)".
std::string call_text(const Verdict& verdict);

}  // namespace ddp::launcher
