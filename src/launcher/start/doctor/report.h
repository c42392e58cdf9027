// Shows what the doctor found: as lines for a person, or as JSON. The functions are pure.
#pragma once

#include <span>
#include <string>

#include "launcher/start/doctor/finding.h"
#include "launcher/start/doctor/node.h"

namespace ddp::launcher::doctor {

inline constexpr int kExitWarn = 1;  // with --strict
inline constexpr int kExitFail = 2;

// Returns one line for each finding, the remedies of those that need one, and a summary.
std::string report_text(const Node& node, std::span<const Finding> findings);
// Returns the same as one JSON object.
std::string report_json(const Node& node, std::span<const Finding> findings, int exit_code);

int exit_code_of(std::span<const Finding> findings, bool is_strict);

}  // namespace ddp::launcher::doctor
