// Builds the manual page ddplaunch(1) from the declared options.
#pragma once

#include <string>

namespace ddp::launcher {

// Returns the manual page, in troff with the man macros.
std::string man_page();

}  // namespace ddp::launcher
