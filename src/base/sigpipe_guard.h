// SigpipeGuard suppresses SIGPIPE for libraries that write to sockets without MSG_NOSIGNAL.
#pragma once

#include <csignal>

namespace ddp::base {

// While it lives, a write of this thread to a closed socket or pipe fails with EPIPE and sends no SIGPIPE. Threads that
// are started meanwhile inherit that permanently. The process's own handling of the signal does not change.
class SigpipeGuard {
 public:
  SigpipeGuard();
  ~SigpipeGuard();
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t before_;
  bool was_pending_;
};

}  // namespace ddp::base
