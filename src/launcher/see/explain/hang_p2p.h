// Judges point-to-point calls.
#pragma once

#include <optional>

#include "launcher/see/explain/hang_groups.h"

namespace ddp::launcher {

// The n-th send of a rank to another one belongs to the n-th receive there. Returns what is known about the first send
// or receive of the rank that has not ended, or std::nullopt if there is none.
std::optional<HangFinding> judge_p2p(const HangGroup& group, int rank, const HangMember& member);

}  // namespace ddp::launcher
