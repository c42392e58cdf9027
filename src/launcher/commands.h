// The composition root: builds the parts of the launcher and connects them. No logic.
#pragma once

namespace ddp::launcher {

// All of ddplaunch but main(): returns the process's exit code. Never throws.
int run_command(int argc, const char* const* argv);

}  // namespace ddp::launcher
