// SigpipeGuard: for libraries that write to sockets without MSG_NOSIGNAL.
#pragma once

#include <csignal>

namespace ddp::base {

// As long as it lives, a write of this thread to a closed socket or pipe fails with EPIPE and sends no SIGPIPE; threads
// that are started meanwhile inherit that for good. The process's own handling of the signal is not touched.
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
