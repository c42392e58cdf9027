// Shows what the doctor found on all nodes: as lines for a person, or as JSON. The functions are pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/start/doctor/between/node_worker.h"
#include "launcher/start/doctor/finding.h"

namespace ddp::launcher::doctor {

inline constexpr int kExitWarn = 1;  // with --strict
inline constexpr int kExitFail = 2;

// Returns the findings of all nodes, and those between them.
Findings all_findings(const NodeResult& result);

// Returns one line for each finding, the remedies of those that need one, and a summary. Of several nodes, what is ok
// on a node is only counted.
std::string report_text(const NodeResult& result);
// Returns the same as one JSON object.
std::string report_json(const NodeResult& result, int exit_code);

// What some nodes have found alike, with their numbers.
struct SharedFinding {
  Finding finding;
  std::vector<int> nodes;
};
// Returns what nodes have found that is not ok, the worst first.
std::vector<SharedFinding> troubles_of(const JobRecord& job);

int exit_code_of(const Findings& findings, bool is_strict);

}  // namespace ddp::launcher::doctor
