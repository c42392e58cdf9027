// Builds the reference page of the command line, in Markdown: docs/reference/cli.md.
#pragma once

#include <string>

namespace ddp::launcher {

std::string command_page();

}  // namespace ddp::launcher
