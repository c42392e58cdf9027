#include "launcher/process/terminal_loan.h"

#include <unistd.h>

#include "launcher/facts/standard_input.h"

namespace ddp::launcher {
namespace {

// The launcher's parent is its guardian, which has stayed in the session of the user's shell.
StandardInput input_of_job() {
  return standard_input(::getppid());
}

}  // namespace

TerminalLoan::TerminalLoan() {
  const StandardInput input = input_of_job();
  is_granted_ = input != StandardInput::background_terminal;
  termios mode{};
  if (input == StandardInput::terminal && ::tcgetattr(STDIN_FILENO, &mode) == 0) mode_ = mode;
}

TerminalLoan::~TerminalLoan() {
  if (mode_ && input_of_job() == StandardInput::terminal) ::tcsetattr(STDIN_FILENO, TCSANOW, &*mode_);
}

}  // namespace ddp::launcher
