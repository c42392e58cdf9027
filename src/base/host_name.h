// The name of this machine.
#pragma once

#include <string>

namespace ddp::base {

// This machine's name, as messages name it; "localhost" if it has none.
std::string host_name();

}  // namespace ddp::base
