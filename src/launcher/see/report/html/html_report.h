// Builds the report of a run: one file of HTML that needs neither a network nor scripts. The functions are pure.
// docs/how-to/read-a-report.md explains it to users.
#pragma once

#include <string>

#include "launcher/see/report/report_data.h"

namespace ddp::launcher {

std::string html_report(const RunRecord& run);

// Shows two runs side by side.
std::string html_comparison(const RunRecord& a, const RunRecord& b);

}  // namespace ddp::launcher
