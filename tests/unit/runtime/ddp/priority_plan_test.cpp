#include "runtime/ddp/priority_plan.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp;
using namespace ddp::internal;
using Order = std::vector<std::size_t>;

TEST_CASE("large parameters are cut into pieces and small neighbours stay together") {
  const std::vector<ParameterSize> sizes = {{DataType::f32, 16}, {DataType::f32, 200}, {DataType::f32, 16}};
  const GradientLayout layout = lay_out(sizes);  // parameter 2 is at 0, 1 at 16, and 0 at 224
  using Plan = std::vector<Bucket>;
  // The parameter that is needed first comes first, although it is the last one in memory.
  CHECK(cut_into_chunks(sizes, layout, Order{0, 2, 1}, 256) == Plan{{DataType::f32, {0, 1}, {{192, 48}}},
                                                                    {DataType::f32, {2, 1}, {{0, 64}}},
                                                                    {DataType::f32, {1}, {{64, 64}}},
                                                                    {DataType::f32, {1}, {{128, 64}}}});
  CHECK(cut_into_chunks(sizes, layout, Order{0, 2, 1}, 64) == [&] {
    Plan plan = {{DataType::f32, {0}, {{224, 16}}}, {DataType::f32, {2}, {{0, 16}}}};
    for (std::size_t first = 16; first < 216; first += 16) {
      plan.push_back({DataType::f32, {1}, {{first, std::min<std::size_t>(16, 216 - first)}}});
    }
    return plan;
  }());
}

TEST_CASE("chunks of any model have every element once") {
  const unsigned seed = ddp::test::random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 generator(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<ParameterSize> sizes(generator() % 20);
    for (ParameterSize& size : sizes) size = {DataType::f32, generator() % 3000};
    Order order = reverse_order(sizes.size());
    std::shuffle(order.begin(), order.end(), generator);
    const GradientLayout layout = lay_out(sizes);
    std::vector<int> covered(layout.arena_count(DataType::f32));
    for (const Bucket& chunk : cut_into_chunks(sizes, layout, order, 64 + generator() % 4000)) {
      for (const ArenaRange& range : chunk.ranges) {
        for (std::size_t i = range.first; i < range.first + range.count; ++i) ++covered[i];
        // Every parameter that has elements in the chunk is named.
        for (std::size_t p = 0; p < sizes.size(); ++p) {
          const bool overlaps =
              layout.first[p] < range.first + range.count && range.first < layout.first[p] + sizes[p].count;
          const bool is_named = std::count(chunk.parameters.begin(), chunk.parameters.end(), p) > 0;
          REQUIRE((!overlaps || sizes[p].count == 0 || is_named));
        }
      }
    }
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      for (std::size_t k = 0; k < sizes[p].count; ++k) REQUIRE(covered[layout.first[p] + k] == 1);
    }
    REQUIRE(std::all_of(covered.begin(), covered.end(), [](int count) { return count <= 1; }));
  }
}

TEST_CASE("what is needed first overtakes what waits") {
  // The order is by priority. Parameter 3 is ready first, and while it is sent the others become ready.
  const std::vector<Transmission> backward = {{3, 1}, {2, 1}, {1, 1}, {0, 4}};
  CHECK(transmission_order(backward) == Order{3, 0, 1, 2});
  // A fast link sends each parameter when it becomes ready.
  const std::vector<Transmission> fast = {{3, 0.1}, {2, 0.1}, {1, 0.1}, {0, 0.1}};
  CHECK(transmission_order(fast) == Order{3, 2, 1, 0});
  CHECK(transmission_order({}).empty());
}
