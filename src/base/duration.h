// Reads times as users write them.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace ddp::base {

// Parses the whole `text` as a number of seconds ("30", "0.5"), or as numbers with the units h, m, s and ms, the
// largest unit first ("500ms", "90s", "10m", "1h30m"). Returns std::nullopt for anything else.
std::optional<std::chrono::duration<double>> parse_duration(std::string_view text);

}  // namespace ddp::base
