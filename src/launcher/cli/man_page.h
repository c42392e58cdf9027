// The manual page ddplaunch(1), made by walking the options.
#pragma once

#include <string>

namespace ddp::launcher {

// In troff, with the man macros.
std::string man_page();

}  // namespace ddp::launcher
