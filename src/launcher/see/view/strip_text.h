// Writes and reads strips: what a rank did over time, as a short text. docs/reference/event-log.md, object
// `history_rank`, describes the text. The reader accepts any text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/ranks/rank_state.h"
#include "launcher/see/view/share_columns.h"

namespace ddp::launcher {

// Holds the tenths of a column's time that a rank spent in each state. The sum is 10.
using StripColumn = std::array<std::uint8_t, kRankStates>;

// Returns the letter of the state in a strip.
char letter_of(RankState state);

// Returns text such as "c*12 c6k3w1 w*4" of a row whose states are RankState.
std::string strip_text(const ShareColumns& columns, std::size_t row);
// Returns text such as "0*12 3 10*4", the tenths of the time in which the row was in state 0.
std::string tenths_text(const ShareColumns& columns, std::size_t row);

// Returns at most `most` columns. What cannot be read is `unknown`, or 0.
std::vector<StripColumn> read_strip(std::string_view text, std::size_t most);
std::vector<std::uint8_t> read_tenths(std::string_view text, std::size_t most);

}  // namespace ddp::launcher
