// progress_line() makes the line that the launcher shows below the output of a job. It is pure.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/see/view/job_snapshot.h"

namespace ddp::launcher {

// Returns for example "step 1200/10000  loss 1.842  18.3k tok/s  eta 7 min". A value is a rate if its name ends with
// "/s", "_per_s", "_per_sec" or "_per_second". Without values and without a total, the job's own rate is shown: "step
// 1200  12.3 steps/s". If the line is longer than `columns`, values are left out, from the last one on, and then the
// end is cut. Returns an empty text if there is no progress at all.
std::string progress_line(const JobSnapshot& job, std::size_t columns);

// Returns at most four significant digits, which do not change in number: "1.842", "3.000e-4", "18.3k", "1.20M". Whole
// numbers below 10,000 have no fraction.
std::string progress_number(double number);

// Returns the time in few digits, because the estimate is uncertain: "45 s", "7 min", "2 h 10 min", "3 d 4 h".
std::string progress_duration(double seconds);

}  // namespace ddp::launcher
