// Which of many verdicts is the cause: ranks that wait are waited for themselves. Pure.
#pragma once

#include <span>
#include <vector>

#include "launcher/watchdog/verdict.h"

namespace ddp::launcher {

// `verdicts`: each on its own. Those whose culprits do not wait themselves, and one for each circle of ranks that wait
// for each other. Ranks that merely wait for these are left out. What moves nothing may be a consequence of what is not
// seen, so it comes last.
std::vector<Verdict> root_causes(const std::vector<Verdict>& verdicts, std::span<const RankView> ranks);

// Whether a reader, and not the program, has written what the ranks are at in the verdict's collective.
bool is_sampled(const Verdict& verdict, std::span<const RankView> ranks);

// Returns whether the reported stall is over. If no rank waits for a collective at the moment, it need not be done.
bool has_gone_on(const Verdict& told, std::span<const RankView> ranks);

}  // namespace ddp::launcher
