#include "store/client/wait_report.h"

#include "support/catch.h"

using ddp::store::describe;

TEST_CASE("a wait report says who waits too, who is elsewhere and who has not come") {
  CHECK(describe({"0,2", "1", "3"}, std::nullopt) ==
        "Ranks 0, 2 wait for it too; rank 1 is connected but does not; rank 3 has not arrived.");
  CHECK(describe({"0-3, 7", "4, 5", "6,8-9"}, std::nullopt) ==
        "Ranks 0-3, 7 wait for it too; ranks 4, 5 are connected but do not; ranks 6, 8-9 have not arrived.");
}

TEST_CASE("a wait report leaves out the rank that reads it") {
  CHECK(describe({"2", "1", ""}, 2) == "Rank 1 is connected but does not wait for it.");
  CHECK(describe({"0-2", "", " "}, 0) == "Ranks 1-2 wait for it too.");
  CHECK(describe({"0-2", "", ""}, 1) == "Ranks 0, 2 wait for it too.");
  CHECK(describe({"0-1", "", ""}, 1) == "Rank 0 waits for it too.");
  CHECK(describe({"3", "", ""}, 3).empty());
  CHECK(describe({"", "", ""}, 3).empty());
}

TEST_CASE("a wait report that is garbled is shown and does no harm") {
  CHECK(describe({"x", "1-", ""}, 1) == "Rank x waits for it too; rank 1- is connected but does not.");
  CHECK(describe({",,", "", "-"}, 1) == "Rank - has not arrived.");
}
