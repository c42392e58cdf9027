// Shows the launcher where the threads of this process are. A signal handler writes their stacks onto the status page.
#pragma once

#include "wire/status_page_layout.h"

namespace ddp::internal {

// Installs the handler and records it on the page, unless there is no page, DDP_STACK_SIGNAL is 0, or the program uses
// that signal itself. A second call does nothing.
void answer_stack_requests(wire::StatusPageLayout* page);

// Returns the signal: DDP_STACK_SIGNAL, or one that is free for programs (SIGRTMIN+10). Returns 0 if none is wanted.
int stack_signal();

}  // namespace ddp::internal
