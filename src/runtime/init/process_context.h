// Declares the ProcessContext of this process.
#pragma once

#include "runtime/group/group_core.h"

namespace ddp::internal {

// Returns the status page that DDP_PAGE_FD names and the faults that DDP_INJECT requests. Every call returns the same
// context, because a fault counts the calls of all groups, including the groups of a second init(). Throws
// invalid_argument if DDP_INJECT is no list of faults.
ProcessContext process_context();

}  // namespace ddp::internal
