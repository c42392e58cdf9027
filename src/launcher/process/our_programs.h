// Programs that are installed with ddplaunch, which starts them.
#pragma once

#include <string>

namespace ddp::launcher {

// The folder of ddplaunch.
std::string our_folder();

// Where it is: beside ddplaunch (the build tree), or in the folder for such programs (an installation). It need not be
// there.
std::string our_program(const std::string& name);

}  // namespace ddp::launcher
