// Names of signals.
#pragma once

#include <string>

namespace ddp::base {

// "SIGSEGV" for 11; "signal 99" for a number without a name.
std::string signal_name(int signal);

}  // namespace ddp::base
