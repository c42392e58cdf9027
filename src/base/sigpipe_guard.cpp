#include "base/sigpipe_guard.h"

#include <pthread.h>

#include <ctime>

namespace ddp::base {
namespace {

sigset_t only_sigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

bool is_pending() {
  sigset_t pending;
  sigemptyset(&pending);
  ::sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

SigpipeGuard::SigpipeGuard() : was_pending_(is_pending()) {
  const sigset_t set = only_sigpipe();
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SigpipeGuard::~SigpipeGuard() {
  // The kernel sends SIGPIPE to the writing thread, so a new pending one belongs to this thread.
  const sigset_t set = only_sigpipe();
  const timespec at_once{};
  if (!was_pending_ && is_pending()) ::sigtimedwait(&set, nullptr, &at_once);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace ddp::base
