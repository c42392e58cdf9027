// Names of signals, and lists of them.
#pragma once

#include <span>
#include <string>

namespace ddp::base {

// "SIGSEGV" for 11; "signal 99" for a number without a name.
std::string signal_name(int signal);

// Whether `signal` is one of them.
bool contains(std::span<const int> signals, int signal);

}  // namespace ddp::base
