// Runs healthy jobs under the hang detector, each from a seed that a failure prints. DDP_TEST_HEALTHY_JOBS is the
// number of jobs, and DDP_TEST_SEED the seed of the first one. With DDP_TEST_ALL, all failures are printed. Without
// these, the test runs the same jobs each time.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "simulation/pages_world.h"
#include "support/catch.h"
#include "support/random_seed.h"

using ddp::test::PagesWorld;

namespace {

void simulate(std::uint64_t usual) {
  const char* given = std::getenv("DDP_TEST_HEALTHY_JOBS");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t count = given == nullptr ? usual : std::strtoull(given, nullptr, 10);
  const bool counts_all = std::getenv("DDP_TEST_ALL") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t first = given == nullptr ? 1 : ddp::test::random_seed();
  PagesWorld::Counts sum;
  std::uint64_t bad = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    PagesWorld world(seed);
    const std::string broken = world.live();
    sum.writes += world.counts().writes;
    sum.samples += world.counts().samples;
    sum.notes += world.counts().notes;
    sum.warnings += world.counts().warnings;
    sum.time += world.counts().time;
    if (counts_all && !broken.empty()) {
      ++bad;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), broken.c_str());
      continue;
    }
    INFO("seed " << seed << ": " << broken);
    REQUIRE(broken.empty());
  }
  if (given == nullptr) return;
  WARN("seeds " << first << " to " << first + count - 1 << ": " << sum.writes << " writes, " << sum.samples
                << " looks, " << sum.notes << " notes, " << sum.warnings << " warnings, bad " << bad << ", "
                << std::chrono::duration<double>(sum.time).count() << " s");
}

}  // namespace

TEST_CASE("a healthy job is never ended as a hang, whenever its status pages are read", "[slow]") {
  simulate(1000);
}

// Jobs that were once ended although they were healthy:
// - 209334: two ranks only wait, and data moves between them. A third one waits for them, which no page shows.
// - 50217, 69833: ranks hold a call back in a batch, and one waits in another group meanwhile.
// - 66862: the rank for which another one waits to come ends.
TEST_CASE("the watchdog does not end four healthy jobs that once looked like a hang of a process group") {
  for (const std::uint64_t seed : {209334, 50217, 69833, 66862}) {
    INFO("seed " << seed);
    CHECK(PagesWorld(seed).live() == "");
  }
}
