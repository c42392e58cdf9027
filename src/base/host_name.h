#pragma once

#include <string>

namespace ddp::base {

// Returns this node's name for messages, or "localhost" if it has none.
std::string host_name();

}  // namespace ddp::base
