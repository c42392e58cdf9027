// Programs that run another program: shells, `uv run`, `conda run`, `accelerate launch`, `timeout`, containers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// `name`: of the program's file, without its folder.
bool is_wrapper(std::string_view name);

// Whether a worker's command runs a Python program: itself, or by a wrapper, a shell script that mentions Python or the
// #! line of a script. Reads the files that the command names.
bool runs_python(const std::vector<std::string>& command, const std::vector<std::string>& environment);

}  // namespace ddp::launcher
