#include "launcher/see/report/straggler_report.h"

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

TEST_CASE("a straggler table has a line for each rank") {
  StragglerReport report;
  CHECK(straggler_table_lines(report).empty());
  report = {380, 100s, {{2, 12, 24ms, 5100ms, 5s}, {0, 0, 0ms, 0ms, 0ms}}};
  CHECK(straggler_table_lines(report) ==
        std::vector<std::string>{"  ranks that the others waited for, in 1 min 40 s:",
                                 "    rank 2: others waited 5.1 s for it (5 % of the time, 5.0 s at once); it was last "
                                 "in 12 of 380 collectives seen, "
                                 "2 ms after the median",
                                 "    rank 0: others waited 0 ms for it (0 % of the time, 0 ms at once); it was last "
                                 "in 0 of 380 collectives seen"});
  for (int rank = 3; rank < 100; ++rank) report.ranks.push_back({rank, 0, 0ms, 0ms, 0ms});
  CHECK(straggler_table_lines(report).size() == 11);
}

TEST_CASE("a rank for which the others waited much gets a remark") {
  StragglerReport report = {380, 100s, {{2, 12, 24ms, 5100ms, 5s}, {0, 1, 1ms, 400ms, 50ms}}};
  CHECK(straggler_remark(report).find("rank 2 was slow: others waited 5.1 s for it (5 % of the time, 5.0 s at once)") ==
        0);
  report.ranks[0].last = 0;
  CHECK(straggler_remark(report) == "rank 2 was slow: others waited 5.1 s for it (5 % of the time, 5.0 s at once)");
  report.ranks[1].waited_for = 4s;  // the other rank was waited for, too
  CHECK(straggler_remark(report).empty());
  report.ranks[1].waited_for = 0s;
  report.time = 59s;  // the run is too short
  CHECK(straggler_remark(report).empty());
  report.time = 1h;  // the share of the time is small
  CHECK(straggler_remark(report).empty());
  report = {380, 2s, {{2, 12, 24ms, 900ms, 1ms}, {0, 1, 1ms, 0ms, 0ms}}};  // the time is too short for a remark
  CHECK(straggler_remark(report).empty());
  CHECK(straggler_remark({}).empty());
}
