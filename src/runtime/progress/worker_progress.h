// The phase of this process, and the status page that it has.
#pragma once

#include <ddp/progress.h>

#include "runtime/progress/status_page.h"

namespace ddp::internal {

// The page that DDP_BOARD_FD names, opened at the first call. It is for the public functions that have no object
// (PhaseScope, heartbeat, request_more_time) and for init(), which passes it down; everything else gets a page from its
// owner.
StatusPage process_page();

// From now on, until the next one or a PhaseScope.
void enter_phase(Phase phase);

}  // namespace ddp::internal
