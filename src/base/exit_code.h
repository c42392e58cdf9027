// These are the exit codes of ddplaunch. docs/reference/exit-codes.md is checked against this list.
#pragma once

namespace ddp::base {

inline constexpr int kExitNotExplained = 1;     // ddplaunch explain does not know the cause
inline constexpr int kExitUsage = 2;            // the command line is wrong
inline constexpr int kExitSaved = 75;           // the job has saved and exited, as requested
inline constexpr int kExitHung = 124;           // ranks did not finish
inline constexpr int kExitOwnFault = 125;       // ddplaunch itself failed
inline constexpr int kExitNotExecutable = 126;  // the program cannot be executed
inline constexpr int kExitNotFound = 127;       // the program was not found

}  // namespace ddp::base
