// Recognizes commands whose program is read from the standard input, such as `python3 -` and `bash < script.sh`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// Returns whether an interpreter that is given this word as its script reads the script from the standard input.
bool names_stdin(std::string_view word);

// Returns whether the command is an interpreter without a script, or with one that is the standard input. It may be
// inside a wrapper, such as `env` or `timeout`.
bool reads_program_from_stdin(const std::vector<std::string>& command);

}  // namespace ddp::launcher
