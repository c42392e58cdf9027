// The phase of this process, on its board.
#pragma once

#include <ddp/progress.h>

namespace ddp::internal {

// From now on, until the next one or a Section.
void enter_phase(Phase phase);

// A synchronised step is done.
void count_step();

}  // namespace ddp::internal
