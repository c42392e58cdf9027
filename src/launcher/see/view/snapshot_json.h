// These functions write a JobSnapshot as JSON and read it. docs/reference/top.md describes the document.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/see/view/job_snapshot.h"

namespace ddp::launcher {

inline constexpr int kSnapshotSchema = 1;

// Returns one line without its end. Shares are rounded to four digits, and times to milliseconds.
std::string json_of(const JobSnapshot& snapshot);

// Reads what json_of() writes. The text may come from any program: a member that is missing, or has the wrong type,
// keeps its default. Fails if the text is no JSON object, has another schema, or has more than limits::kViewRanks
// ranks.
base::Result<JobSnapshot> read_snapshot(std::string_view text);

}  // namespace ddp::launcher
