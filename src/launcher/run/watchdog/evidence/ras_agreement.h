// Joins what NCCL's RAS says with the verdict.
#pragma once

#include "launcher/run/watchdog/hang_news.h"

namespace ddp::launcher {

// If RAS has counted fewer operations on just the ranks that the verdict names, one line says so in place of the lines
// that repeat it. Other lines of RAS stay, and so do all of them if it counts otherwise.
void join_ras(HangNews& news);

}  // namespace ddp::launcher
