// Recognizes programs that run another program: shells, `uv run`, `conda run`, `accelerate launch`, `timeout`,
// containers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// `name` is the name of the program's file, without its folder.
bool is_wrapper(std::string_view name);

// Returns whether a worker's command runs a Python program. It may do so directly, by a wrapper, by a shell script that
// mentions Python, or by the #! line of a script. Reads the files that the command names.
bool runs_python(const std::vector<std::string>& command, const std::vector<std::string>& environment);

}  // namespace ddp::launcher
