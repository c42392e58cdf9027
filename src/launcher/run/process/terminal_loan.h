// TerminalLoan restores the terminal that a worker has read.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <optional>
#include <span>

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

  // Returns whether the worker waits for input. `processes` are its processes. A prompt that edits the line has
  // switched the terminal's own editing off, and waits in select(). Any other reader waits in read().
  bool is_awaited_by(std::span<const pid_t> processes) const;

  // Returns whether another process group has the terminal, such as the user's shell after Ctrl-Z and bg.
  bool is_taken() const;

 private:
  bool is_granted_ = false;
  std::optional<termios> mode_;  // empty if the standard input is no terminal
};

}  // namespace ddp::launcher
