// Declares the phase, the status page and the record ring of this process.
#pragma once

#include <ddp/progress.h>

#include "runtime/progress/record_ring.h"
#include "runtime/progress/status_page.h"

namespace ddp::internal {

// Returns the page that DDP_PAGE_FD names, which the first call opens. It is for the public functions that have no
// object (PhaseScope, heartbeat, request_more_time) and for init(), which passes it down. All other code gets a page
// from its owner.
StatusPage process_page();

// Does the same for the ring that DDP_RECORD_FD names. There is none if this process does not write the page.
RecordRing process_ring();

// Enters a phase, which lasts until the next call or a PhaseScope.
void enter_phase(Phase phase);

}  // namespace ddp::internal
