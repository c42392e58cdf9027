// Finds programs that are installed with ddplaunch and that it starts.
#pragma once

#include <string>

namespace ddp::launcher {

// Returns the folder of ddplaunch.
std::string our_folder();

// Returns the path of the program: beside ddplaunch (in a build tree), or in the folder for such programs (in an
// installation). The file need not exist.
std::string our_program(const std::string& name);

}  // namespace ddp::launcher
