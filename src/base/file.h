// Reading of whole files.
#pragma once

#include <string>

namespace ddp::base {

// The bytes of a file that is small or made up by the kernel (proc, sys); empty if it cannot be read.
std::string read_file(const std::string& path);

}  // namespace ddp::base
