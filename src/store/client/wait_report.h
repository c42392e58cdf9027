// What the other ranks do while one has waited in vain.
#pragma once

#include <optional>
#include <string>

namespace ddp::store {

// Rank lists as the server's EXPLAIN has them: "0, 2-5", "" for none.
struct WaitReport {
  std::string waiting;    // for one of the keys, or gave it up
  std::string elsewhere;  // connected, and not waiting for them
  std::string never;      // not seen yet
};

// "Ranks 0, 2 wait for it too; rank 1 is connected and does not; rank 3 has not arrived." `own` is left out. Empty if
// the report names nobody else.
std::string describe(const WaitReport& report, std::optional<int> own);

}  // namespace ddp::store
