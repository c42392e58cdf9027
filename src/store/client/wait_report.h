// WaitReport describes the other ranks when a rank's wait has timed out.
#pragma once

#include <optional>
#include <string>

namespace ddp::store {

// Holds rank lists from the server's EXPLAIN: "0, 2-5", or "" for none.
struct WaitReport {
  std::string waiting;    // ranks that wait for one of the keys, or stopped waiting for it
  std::string elsewhere;  // ranks that are connected but do not wait for them
  std::string never;      // ranks that have not connected yet
};

// Returns text such as "Ranks 0, 2 wait for it too; rank 1 is connected but does not; rank 3 has not arrived." It omits
// `own`. The text is empty if the report names no other rank.
std::string describe(const WaitReport& report, std::optional<int> own);

}  // namespace ddp::store
