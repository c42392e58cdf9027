#include "runtime/ddp/bucket_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp;
using namespace ddp::internal;
using Order = std::vector<std::size_t>;

namespace {

std::vector<ParameterSize> floats(const std::vector<std::size_t>& counts) {
  std::vector<ParameterSize> result;
  for (const std::size_t count : counts) result.push_back({DataType::f32, count});
  return result;
}

using Plan = std::vector<Bucket>;

Plan plan_buckets(const std::vector<ParameterSize>& parameters, const BucketOptions& limits) {
  return ddp::internal::plan_buckets(parameters, lay_out(parameters), reverse_order(parameters.size()), limits);
}

Plan plan_in_order(const std::vector<ParameterSize>& parameters, const std::vector<std::size_t>& order,
                   const BucketOptions& limits) {
  return ddp::internal::plan_buckets(parameters, lay_out(parameters), order, limits);
}

constexpr BucketOptions kHuge{std::size_t{1} << 40, std::size_t{1} << 40};

}  // namespace

TEST_CASE("gradients of a type are laid out from the last parameter to the first at multiples of 64 bytes") {
  const std::vector<ParameterSize> parameters = {
      {DataType::f32, 3}, {DataType::f64, 9}, {DataType::f32, 17}, {DataType::f32, 0}, {DataType::bf16, 1}};
  const GradientLayout layout = lay_out(parameters);
  CHECK(layout.first == std::vector<std::size_t>{32, 0, 0, 0, 0});
  CHECK(layout.arena_count(DataType::f32) == 48);
  CHECK(layout.arena_count(DataType::f64) == 16);
  CHECK(layout.arena_count(DataType::bf16) == 32);
  CHECK(layout.arena_count(DataType::f16) == 0);
}

TEST_CASE("no parameters give no buckets") {
  CHECK(plan_buckets({}, {1, 1}).empty());
}

TEST_CASE("a bucket is closed once it reaches the limit") {
  // Each parameter has 64 bytes. One parameter fills the first bucket, and two fill each other bucket.
  const Plan plan = plan_buckets(floats({16, 16, 16, 16, 16}), {64, 128});
  CHECK(plan == Plan{{DataType::f32, {4}, {{0, 16}}},
                     {DataType::f32, {3, 2}, {{16, 32}}},
                     {DataType::f32, {1, 0}, {{48, 32}}}});
}

TEST_CASE("a bucket exceeds the limit by at most one parameter") {
  const Plan plan = plan_buckets(floats({16, 1600, 16}), {65, 65});
  CHECK(plan == Plan{{DataType::f32, {2, 1}, {{0, 1616}}}, {DataType::f32, {0}, {{1616, 16}}}});
}

TEST_CASE("a huge parameter fills a bucket") {
  const std::size_t huge = std::size_t{1} << 40;
  const Plan plan = plan_buckets(floats({huge}), {std::size_t{1} << 20, std::size_t{25} << 20});
  CHECK(plan == Plan{{DataType::f32, {0}, {{0, huge}}}});
}

TEST_CASE("parameters that fill no bucket come last") {
  const Plan plan = plan_buckets(floats({16, 16, 16}), {64, 1 << 20});
  CHECK(plan == Plan{{DataType::f32, {2}, {{0, 16}}}, {DataType::f32, {1, 0}, {{16, 32}}}});
}

TEST_CASE("types do not share a bucket, and unfilled buckets come in the order of first use") {
  const std::vector<ParameterSize> mixed = {
      {DataType::f32, 16}, {DataType::f64, 8}, {DataType::f32, 16}, {DataType::f64, 8}};
  CHECK(plan_buckets(mixed, kHuge) == Plan{{DataType::f64, {3, 1}, {{0, 16}}}, {DataType::f32, {2, 0}, {{0, 32}}}});
  // Buckets are closed in the order in which they fill, whatever their type. Only the first one has the small limit.
  CHECK(plan_buckets(mixed, {64, 128}) ==
        Plan{{DataType::f64, {3}, {{0, 8}}}, {DataType::f32, {2, 0}, {{0, 32}}}, {DataType::f64, {1}, {{8, 8}}}});
}

TEST_CASE("a limit of zero gives every parameter its own bucket") {
  CHECK(plan_buckets(floats({0, 1, 16}), {0, 0}).size() == 3);
}

TEST_CASE("an empty parameter is in a bucket and takes no memory") {
  const Plan plan = plan_buckets(floats({16, 0, 16}), kHuge);
  CHECK(plan == Plan{{DataType::f32, {2, 1, 0}, {{0, 32}}}});
}

TEST_CASE("parameters adjacent in memory form one piece in any order of readiness") {
  const std::vector<ParameterSize> parameters = floats({16, 3, 16, 16});
  CHECK(plan_in_order(parameters, {1, 3, 2, 0}, kHuge) == Plan{{DataType::f32, {1, 3, 2, 0}, {{0, 64}}}});
  // If the parameters of a bucket are not neighbours, it has several pieces. None of them has the padding at its end.
  CHECK(plan_in_order(parameters, {3, 1, 2, 0}, {128, 128}) ==
        Plan{{DataType::f32, {3, 1}, {{0, 16}, {32, 3}}}, {DataType::f32, {2, 0}, {{16, 16}, {48, 16}}}});
}

TEST_CASE("a plan for any model contains each parameter and each element once") {
  const unsigned seed = ddp::test::random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 generator(seed);
  for (int round = 0; round < 300; ++round) {
    INFO("round " << round);
    std::vector<ParameterSize> parameters(generator() % 60);
    for (ParameterSize& parameter : parameters) {
      parameter = {generator() % 3 == 0 ? DataType::f64 : DataType::f32, generator() % 500};
    }
    const BucketOptions limits{.first_bytes = generator() % 2000, .bytes = generator() % 5000};
    std::vector<std::size_t> order = reverse_order(parameters.size());
    if (round % 2 == 0) std::shuffle(order.begin(), order.end(), generator);
    const GradientLayout layout = lay_out(parameters);
    const Plan plan = ddp::internal::plan_buckets(parameters, layout, order, limits);

    std::set<std::size_t> seen;
    std::map<DataType, std::vector<int>> covered;
    for (const DataType type : {DataType::f32, DataType::f64}) covered[type].resize(layout.arena_count(type));
    for (const Bucket& bucket : plan) {
      REQUIRE_FALSE(bucket.parameters.empty());
      std::size_t end = 0;
      for (const ArenaRange& range : bucket.ranges) {
        REQUIRE(range.count > 0);
        REQUIRE(range.first >= end);
        end = range.first + range.count;
        REQUIRE(end <= layout.arena_count(bucket.type));
        for (std::size_t i = range.first; i < end; ++i) ++covered[bucket.type][i];
      }
      for (const std::size_t parameter : bucket.parameters) {
        REQUIRE(seen.insert(parameter).second);
        REQUIRE(parameters[parameter].type == bucket.type);
      }
    }
    REQUIRE(seen.size() == parameters.size());
    for (const auto& [type, counts] : covered) {
      for (const int count : counts) REQUIRE(count <= 1);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      REQUIRE(layout.first[i] * size_of(parameters[i].type) % 64 == 0);
      for (std::size_t k = 0; k < parameters[i].count; ++k) {
        REQUIRE(covered[parameters[i].type][layout.first[i] + k] == 1);
      }
    }
  }
}

TEST_CASE("gradients in the program's own array are in parameter order without gaps") {
  const std::vector<ParameterSize> parameters = floats({3, 0, 5, 7});
  const GradientLayout layout = lay_out_in_order(parameters);
  CHECK(layout.first == std::vector<std::size_t>{0, 3, 3, 8});
  CHECK(layout.arena_count(DataType::f32) == 15);
  CHECK(ddp::internal::plan_buckets(parameters, layout, reverse_order(4), {.first_bytes = 28, .bytes = 1000}) ==
        Plan{{DataType::f32, {3}, {{8, 7}}}, {DataType::f32, {2, 1, 0}, {{0, 8}}}});
}

TEST_CASE("large parameters are divided and small neighbours are joined") {
  const std::vector<ParameterSize> sizes = {{DataType::f32, 16}, {DataType::f32, 200}, {DataType::f32, 16}};
  const GradientLayout layout = lay_out(sizes);  // parameter 2 is at 0, 1 at 16, and 0 at 224
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

TEST_CASE("the chunks of any model contain each element once") {
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

TEST_CASE("the chunk that is needed first is sent before waiting ones") {
  // The order is by priority. Parameter 3 is ready first, and while it is sent the others become ready.
  const std::vector<Transmission> backward = {{3, 1}, {2, 1}, {1, 1}, {0, 4}};
  CHECK(transmission_order(backward) == Order{3, 0, 1, 2});
  // A fast link sends each parameter when it becomes ready.
  const std::vector<Transmission> fast = {{3, 0.1}, {2, 0.1}, {1, 0.1}, {0, 0.1}};
  CHECK(transmission_order(fast) == Order{3, 2, 1, 0});
  CHECK(transmission_order({}).empty());
}
