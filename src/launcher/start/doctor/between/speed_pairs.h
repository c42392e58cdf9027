// Says which nodes measure their speed with each other, in two rounds. A node that is slow with two different partners
// is slow itself. Pure.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "launcher/start/doctor/between/records.h"

namespace ddp::launcher::doctor {

using NodePair = std::pair<int, int>;

// In the first round, neighbours make pairs. If the number is odd, the last node has no partner.
std::vector<NodePair> first_pairs(std::span<const int> nodes);
// In the second round, the slowest node has the fastest one as its partner, and so on.
std::vector<NodePair> second_pairs(std::span<const int> nodes, std::span<const Speed> first);

// Returns the slower direction.
inline double slower_of(const Speed& speed) {
  return speed.there < speed.back ? speed.there : speed.back;
}

// Returns the nodes that had less than half of the median speed in each of at least two rounds. Returns none of fewer
// than four nodes, among which one does not know which is slow.
std::vector<int> slow_nodes(std::span<const Speed> speeds);

}  // namespace ddp::launcher::doctor
