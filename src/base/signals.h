// These functions name signals and search lists of them.
#pragma once

#include <array>
#include <csignal>
#include <span>
#include <string>

namespace ddp::base {

// The signals of faults in native code.
inline constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// Returns the name: "SIGSEGV" for 11, or "signal 99" for a number without a name.
std::string signal_name(int signal);

// Returns whether `signals` contains `signal`.
bool contains(std::span<const int> signals, int signal);

}  // namespace ddp::base
