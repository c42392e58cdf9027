// What the hub says of nodes. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddp::launcher {

// All nodes hear the names of so many.
inline constexpr std::size_t kNamedNodes = 16;

// "b (ranks 2-3, 10.0.0.7)"; the hub's own node has no address.
std::string place_text(const std::string& host, const std::string& address, int first_rank, int workers);

// "a, b, … and 84 more".
std::string some_of(std::vector<std::string> names);

}  // namespace ddp::launcher
