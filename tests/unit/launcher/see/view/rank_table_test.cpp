#include "launcher/see/view/rank_table.h"

#include "support/catch.h"
#include "support/made_snapshot.h"

using namespace ddp::launcher;

namespace {

std::vector<std::string> map_of(const JobSnapshot& job, FrameSize most) {
  return heat_map(single_ranks(job, "", RankOrder::rank), most, {false, false});
}

}  // namespace

TEST_CASE("a cell of the heat map is one rank, or the worst of a block of ranks") {
  JobSnapshot job = ddp::test::training_job(100);
  job.ranks[1].waited_for = 0.03;
  job.ranks[2].waited_for = 0.2;
  job.ranks[3].waited_for = 0.3;
  job.ranks[4].waited_for = 1;
  job.ranks[5].state = RankState::ended;
  job.ranks[6].state = RankState::stopped;
  job.culprits = {7};
  auto lines = map_of(job, {80, 10});
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "  0 .-=+#eT!" + std::string(56, '.'));
  CHECK(lines[1] == " 64 " + std::string(36, '.'));
  CHECK_THAT(lines[2], Catch::StartsWith(" a cell is a rank"));

  lines = map_of(job, {24, 3});
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "  0 +!" + std::string(14, '.'));
  CHECK_THAT(lines[2], Catch::StartsWith(" a cell is 4 ranks"));
  CHECK(map_of(job, {24, 1}).empty());
  CHECK(map_of(JobSnapshot{}, {24, 9}).empty());
}
