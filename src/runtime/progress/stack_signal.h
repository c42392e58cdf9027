// Where the threads of this process are, for the launcher: a signal's handler writes it onto the board.
#pragma once

#include "wire/progress_board.h"

namespace ddp::internal {

// Installs the handler and says so on the board, unless there is no board, DDP_STACK_SIGNAL is 0, or the program uses
// that signal itself. A second call does nothing.
void answer_stack_requests(wire::ProgressBoard* board);

// The signal: DDP_STACK_SIGNAL, or one of those for programs (SIGRTMIN+10). 0: none is wanted.
int stack_signal();

}  // namespace ddp::internal
