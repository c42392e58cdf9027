#include "launcher/see/view/rank_groups.h"

#include "support/catch.h"
#include "support/made_snapshot.h"

using namespace ddp::launcher;

namespace {

std::vector<int> ranks_of(const std::vector<RankGroup>& groups) {
  std::vector<int> ranks;
  for (const RankGroup& group : groups) ranks.insert(ranks.end(), group.ranks.begin(), group.ranks.end());
  return ranks;
}

}  // namespace

TEST_CASE("equal ranks of a node form a group, and a culprit never belongs to one") {
  JobSnapshot job = ddp::test::training_job(16, 8);
  job.ranks[3].waited_for = 0.5;
  job.ranks[4].cpus = 3;
  job.ranks[6].state = RankState::collective;
  job.culprits = {7};
  const auto groups = joined(single_ranks(job, "", RankOrder::rank));
  REQUIRE(groups.size() == 5);
  CHECK(groups[0].ranks == std::vector<int>{0, 1, 2, 4, 5});
  CHECK(groups[0].figures.cpus == Approx(1.432));
  CHECK(groups[0].figures.pid == 0);
  CHECK(groups[1].ranks == std::vector<int>{3});
  CHECK(groups[2].ranks == std::vector<int>{6});
  CHECK(groups[3].ranks == std::vector<int>{7});
  CHECK(groups[3].is_culprit);
  CHECK(groups[4].ranks.size() == 8);
}

TEST_CASE("ranks can be sorted by any value, and are sorted by rank without a stall") {
  JobSnapshot job = ddp::test::training_job(4, 4);
  job.ranks[2].waited_for = 0.9;
  job.ranks[1].steps = 1100;
  job.ranks[3].rss_bytes = std::uint64_t{9} << 30;
  job.ranks[0].output_age.reset();
  const auto sorted = [&](RankOrder order) { return ranks_of(single_ranks(job, "", order)); };
  CHECK(sorted(RankOrder::automatic) == std::vector<int>{0, 1, 2, 3});
  CHECK(sorted(RankOrder::waited_for) == std::vector<int>{2, 0, 1, 3});
  CHECK(sorted(RankOrder::step) == std::vector<int>{1, 0, 2, 3});
  CHECK(sorted(RankOrder::memory) == std::vector<int>{3, 0, 1, 2});
  CHECK(sorted(RankOrder::output) == std::vector<int>{0, 1, 2, 3});
  job.stall = "ranks wait";
  CHECK(sorted(RankOrder::automatic) == std::vector<int>{2, 0, 1, 3});
  job.culprits = {3};
  CHECK(sorted(RankOrder::automatic) == std::vector<int>{3, 2, 0, 1});
}

TEST_CASE("a filter is a list of ranks or a case-insensitive text") {
  JobSnapshot job = ddp::test::training_job(8, 4);
  job.ranks[6].state = RankState::phase;
  job.ranks[6].phase = "evaluation";
  const auto filtered = [&](const char* filter) { return ranks_of(single_ranks(job, filter, RankOrder::rank)); };
  CHECK(filtered("") == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(filtered("3,5-6") == std::vector<int>{3, 5, 6});
  CHECK(filtered("NODE1") == std::vector<int>{4, 5, 6, 7});
  CHECK(filtered("eval") == std::vector<int>{6});
  CHECK(filtered("gpu 3") == std::vector<int>{3, 7});
  CHECK(filtered("bucket 9").empty());
}

TEST_CASE("the worst ranks are listed first") {
  JobSnapshot job = ddp::test::training_job(6, 6);
  job.ranks[4].waited_for = 0.3;
  job.ranks[2].state = RankState::stopped;
  job.ranks[5].steps = 1;
  job.culprits = {3};
  CHECK(ranks_of(worst_of(single_ranks(job, "", RankOrder::rank), 4)) == std::vector<int>{3, 2, 4, 5});
  CHECK(worst_of(single_ranks(job, "", RankOrder::rank), 100).size() == 6);
}
