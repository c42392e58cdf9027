// Shows the stacks of a rank as lines, for views.
#pragma once

#include <string>
#include <vector>

#include "launcher/stacks/stack_text.h"

namespace ddp::launcher {

// Returns the lines that show these stacks: each thread with its frames, the innermost one first. It is pure.
std::vector<std::string> stack_lines(const RankStacks& stacks);

}  // namespace ddp::launcher
