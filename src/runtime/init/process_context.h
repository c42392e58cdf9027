// The ProcessContext of this process.
#pragma once

#include "runtime/group/group_core.h"

namespace ddp::internal {

// The status page that DDP_BOARD_FD names and the faults that DDP_INJECT asks for. Every call returns the same: a fault
// counts the calls of all groups, also of those that a second init() makes. Throws invalid_argument if DDP_INJECT is no
// list of faults.
ProcessContext process_context();

}  // namespace ddp::internal
