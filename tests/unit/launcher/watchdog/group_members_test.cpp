#include "launcher/watchdog/group_members.h"

#include <cstdint>
#include <vector>

#include "support/catch.h"
#include "support/group_ranks.h"

using namespace ddp::launcher;

TEST_CASE("calls that differ and were completed prove nothing of PyTorch's ranks") {
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
