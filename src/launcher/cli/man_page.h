// The manual page ddplaunch(1), made from the option table.
#pragma once

#include <string>

namespace ddp::launcher {

// In troff, with the man macros.
std::string man_page();

}  // namespace ddp::launcher
