// Returns what should be the same on all nodes of a job: versions, sizes and variables. See findings_between().
#pragma once

#include <string>
#include <vector>

#include "launcher/start/doctor/between/records.h"
#include "launcher/start/doctor/node.h"

namespace ddp::launcher::doctor {

std::vector<Fact> facts_to_compare(const Node& node);

}  // namespace ddp::launcher::doctor
