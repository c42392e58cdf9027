#include "base/signals.h"

#include <csignal>
#include <cstring>

namespace ddp::base {

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  if (name != nullptr) return std::string("SIG") + name;
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  return "signal " + std::to_string(signal);
}

}  // namespace ddp::base
