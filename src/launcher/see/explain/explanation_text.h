// Shows an explanation to people and to programs. The functions are pure.
#pragma once

#include <string>

#include "launcher/see/explain/explanation.h"

namespace ddp::launcher {

// Returns lines with their ends.
std::string explanation_text(const Explanation& explanation);

// Returns a JSON object with a line's end. docs/how-to/explain-a-log.md describes its fields.
std::string explanation_json(const Explanation& explanation);

}  // namespace ddp::launcher
