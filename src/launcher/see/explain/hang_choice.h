// Finds among the hangs of several process groups the one that the others wait for.
#pragma once

#include <vector>

#include "launcher/see/explain/hang_records.h"

namespace ddp::launcher {

// A rank that keeps one group waiting, because it waits in another group itself, is not the culprit. Returns the hang
// at the end of that chain, with those that wait for it, and with those that do not depend on it. There is at least
// one.
HangFinding choose_hang(std::vector<HangFinding> findings);

}  // namespace ddp::launcher
