// Terminal gives a program the whole screen and every key, and restores the terminal at the end.
#pragma once

#include <termios.h>

#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

// There is at most one object at a time. It also restores the terminal if a fault (such as SIGSEGV) ends the process.
// Other signals are the caller's: it must destroy the object before it ends, and call suspend() for SIGTSTP.
class Terminal {
 public:
  // Opens the terminal of the standard output, and shows the alternate screen. Fails if it is no terminal.
  static base::Result<std::unique_ptr<Terminal>> open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Keys are read from this descriptor, and frames are written to it. It is non-blocking, and its flags are not those
  // of the standard output, which other processes share.
  int fd() const { return fd_.get(); }
  FrameSize size() const;

  // Restores the terminal and stops this process. When it continues, the caller gets SIGCONT, and calls take().
  void suspend();
  void take();

 private:
  Terminal(base::UniqueFd fd, const termios& before) : fd_(std::move(fd)), before_(before) {}
  void leave();

  base::UniqueFd fd_;
  const termios before_;
};

}  // namespace ddp::launcher
