// Defines the limits of the history of an attempt, which is in the event log and in the report.
// docs/development/limits.md says what happens when one is reached.
#pragma once

#include <cstddef>

namespace ddp::limits {

inline constexpr std::size_t kHistoryColumns = 2000;  // most columns of a strip
inline constexpr std::size_t kHistoryWaitColumns =
    200;  // most columns of the ranks that are waited for, and of the curves
inline constexpr std::size_t kHistoryCells = 500'000;              // most columns of all ranks together
inline constexpr std::size_t kHistoryRanks = 16'384;               // most ranks
inline constexpr std::size_t kHistoryText = std::size_t{5} << 18;  // most bytes of all strips together
inline constexpr std::size_t kHistoryCollectives = 200;            // most rows of the table of collectives
inline constexpr std::size_t kHistoryOpenCalls = 4096;             // most collectives that wait for more records

}  // namespace ddp::limits
