#include "launcher/run/ranks/group_members.h"

#include <cstdint>
#include <vector>

#include "support/catch.h"
#include "support/group_ranks.h"

using namespace ddp::launcher;

TEST_CASE("completed calls that differ prove nothing about PyTorch ranks") {
  Ranks ranks(2);
  ranks.at(0, 7, 6).at(1, 7, 6);
  for (RankView& view : ranks.views) view.page.groups[0].is_sampled = true;
  ranks.views[1].calls[0][0].fingerprint = 8;  // of collective 4
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
  CHECK_FALSE(find_difference(ranks.views));
  ranks.views[1].calls[0].back().fingerprint = 8;  // of collective 7
  CHECK(ranks.verdict()->kind == VerdictKind::different_arguments);
  CHECK(ranks.verdict()->sequence == 7);
  // One rank has finished its part of what the other one waits in.
  ranks.views[1].page.groups[0].finished = 7;
  REQUIRE(find_difference(ranks.views));
  CHECK(find_difference(ranks.views)->sequence == 7);
}

TEST_CASE("the last calls of a mismatch are the cause although PyTorch counts them as completed") {
  Ranks ranks(3);
  ranks.at(0, 7, 7).at(1, 6, 6).at(2, 7, 7);
  for (RankView& view : ranks.views) view.page.groups[0].is_sampled = true;
  ranks.views[0].calls[0][0].fingerprint = 8;      // of collective 4, which did no harm
  ranks.views[2].calls[0].back().fingerprint = 9;  // of collective 7
  CHECK_FALSE(find_difference(ranks.views));
  const auto verdict = find_difference(ranks.views, /*a_rank_failed=*/true);
  REQUIRE(verdict);
  CHECK(verdict->sequence == 7);
  CHECK(verdict->culprits == std::vector<int>{0, 2});
}
