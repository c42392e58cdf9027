// Runs random jobs on several nodes, each from a seed that a failure prints; the rules are in nodes_rules.h.
// DDP_TEST_SCHEDULES is the number of jobs, and DDP_TEST_SEED the seed of the first one. docs/development/benchmarks.md
// lists the runs.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>

#include "simulation/nodes_world.h"
#include "support/catch.h"
#include "support/random_seed.h"

using ddp::test::NodesWorld;

namespace {

constexpr int kMostNodes = 10'000;

std::uint64_t schedules(std::uint64_t usual) {
  const char* given = std::getenv("DDP_TEST_SCHEDULES");  // NOLINT(concurrency-mt-unsafe)
  return given == nullptr ? usual : std::strtoull(given, nullptr, 10);
}

// Returns the number of nodes. One of n jobs has n nodes or more.
int size_of(std::uint64_t seed, int most) {
  std::mt19937_64 random(~seed);
  const double share = std::uniform_real_distribution(0.0, 1.0)(random);
  return static_cast<int>(std::clamp(1 / std::max(share, 1e-9), 1.0, static_cast<double>(most)));
}

}  // namespace

TEST_CASE("all nodes of a job agree on its end under random failures") {
  const std::uint64_t first = ddp::test::random_seed();
  const std::uint64_t count = schedules(10'000);
  const int most = count > 20'000 ? kMostNodes : 300;
  NodesWorld::Counts sum;
  int sizes[5] = {};
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const int nodes = size_of(seed, most);
    NodesWorld world(seed, nodes);
    const std::string broken = world.live();
    INFO("seed " << seed << ", " << nodes << " nodes: " << broken);
    REQUIRE(broken.empty());
    for (int i = 0, least = 1; i < 5; ++i, least *= 10) sizes[i] += nodes >= least;
    sum.events += world.counts().events;
    sum.faults += world.counts().faults;
    sum.attempts += world.counts().attempts;
    sum.machines += world.counts().machines;
  }
  if (count <= 20'000) return;
  WARN("seeds " << first << " to " << first + count - 1 << ": " << sum.machines << " machines, " << sum.events
                << " events, " << sum.faults << " faults, " << sum.attempts << " attempts; of at least 1, 10, 100, "
                << "1000, 10000 nodes: " << sizes[0] << ", " << sizes[1] << ", " << sizes[2] << ", " << sizes[3] << ", "
                << sizes[4]);
}

TEST_CASE("all nodes of a job on ten thousand nodes agree on its end under random failures", "[slow]") {
  const std::uint64_t seed = ddp::test::random_seed();
  NodesWorld world(seed, kMostNodes);
  const std::string broken = world.live();
  INFO("seed " << seed << ": " << broken);
  REQUIRE(broken.empty());
}
