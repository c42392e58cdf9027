// Runs work on its own thread, which gets a signal every millisecond. The signal's handler is installed without
// SA_RESTART, so it interrupts every call that waits.
#pragma once

#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX

#include <atomic>
#include <chrono>
#include <thread>

namespace ddp::test {

// Returns the number of signals that were sent until the work was done. Runs `meanwhile` after 100 of them.
template <typename Work, typename Meanwhile>
int run_with_signals(Work&& work, Meanwhile&& meanwhile) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &action, &before);
  std::atomic<bool> is_done = false;
  std::thread worker([&] {
    work();
    is_done = true;
  });
  int signals = 0;
  for (; !is_done; ++signals) {
    if (signals == 100) meanwhile();
    ::pthread_kill(worker.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  worker.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  return signals;
}

}  // namespace ddp::test
