// Where the threads of this process are, for the launcher: a signal's handler writes it onto the page.
#pragma once

#include "wire/status_page_layout.h"

namespace ddp::internal {

// Installs the handler and says so on the page, unless there is no page, DDP_STACK_SIGNAL is 0, or the program uses
// that signal itself. A second call does nothing.
void answer_stack_requests(wire::StatusPageLayout* page);

// The signal: DDP_STACK_SIGNAL, or one of those for programs (SIGRTMIN+10). 0: none is wanted.
int stack_signal();

}  // namespace ddp::internal
