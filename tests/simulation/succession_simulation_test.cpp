// Loses the first nodes of jobs in all ways, each from a seed that a failure prints. DDP_TEST_SUCCESSIONS is the number
// of jobs, and DDP_TEST_SEED the seed of the first one.
#include <cstdlib>

#include "simulation/succession_world.h"
#include "support/catch.h"
#include "support/random_seed.h"

using ddp::test::SuccessionWorld;

TEST_CASE("a job has at most one coordinator and can continue without its first node") {
  const char* given = std::getenv("DDP_TEST_SUCCESSIONS");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t count = given == nullptr ? 1'000 : std::strtoull(given, nullptr, 10);
  const std::uint64_t first = ddp::test::random_seed();
  SuccessionWorld::Counts sum;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SuccessionWorld world(seed);
    const std::string broken = world.live();
    INFO("seed " << seed << ": " << broken);
    REQUIRE(broken.empty());
    sum.kills += world.counts().kills;
    sum.freezes += world.counts().freezes;
    sum.cuts += world.counts().cuts;
    sum.attempts += world.counts().attempts;
    sum.takeovers += world.counts().takeovers;
    sum.granted += world.counts().granted;
    sum.taken += world.counts().taken;
  }
  if (given == nullptr) return;
  WARN("seeds " << first << " to " << first + count - 1 << ": " << sum.kills << " kills, " << sum.freezes
                << " freezes, " << sum.cuts << " cuts, " << sum.attempts << " attempts, " << sum.takeovers
                << " nodes that stood for election, " << sum.granted << " claims granted and " << sum.taken
                << " refused");
}
