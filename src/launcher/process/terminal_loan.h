// TerminalLoan restores the terminal that a worker has read.
#pragma once

#include <termios.h>

#include <optional>

namespace ddp::launcher {

// A worker that reads the terminal may switch off its echo, as a debugger does at its prompt, and may end before it
// switches it on again. The destructor restores the mode that the standard input had when the object was made, unless
// the job is in the background. The user's shell has restored it then.
//
// Call from one thread.
class TerminalLoan {
 public:
  TerminalLoan();
  ~TerminalLoan();
  TerminalLoan(const TerminalLoan&) = delete;
  TerminalLoan& operator=(const TerminalLoan&) = delete;

  // Returns whether the worker may have the standard input. The terminal of a job in the background belongs to others.
  bool is_granted() const { return is_granted_; }

 private:
  bool is_granted_ = false;
  std::optional<termios> mode_;  // empty if the standard input is no terminal
};

}  // namespace ddp::launcher
