#include "base/signals.h"

#include <algorithm>
#include <csignal>
#include <cstring>

namespace ddp::base {

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  if (name != nullptr) return std::string("SIG") + name;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  return "signal " + std::to_string(signal);
}

bool contains(std::span<const int> signals, int signal) {
  return std::ranges::find(signals, signal) != signals.end();
}

}  // namespace ddp::base
