// This is the composition root: it builds the parts of the launcher and connects them. It contains no logic.
#pragma once

namespace ddp::launcher {

// Does everything that ddplaunch does outside of main(). Returns the process's exit code. Never throws.
int run_command(int argc, const char* const* argv);

}  // namespace ddp::launcher
