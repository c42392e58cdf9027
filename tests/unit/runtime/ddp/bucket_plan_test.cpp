#include "runtime/ddp/bucket_plan.h"

#include <catch2/catch.hpp>

#include <random>
#include <set>

#include "support/random_seed.h"

using ddp::Bucket;
using ddp::BucketSlot;
using ddp::DataType;
using ddp::ParameterSize;
using ddp::plan_buckets;

namespace {

constexpr std::size_t kFloatsPerLine = 16;  // 64 bytes

std::vector<ParameterSize> floats(const std::vector<std::size_t>& counts) {
  std::vector<ParameterSize> result;
  for (const std::size_t count : counts) result.push_back({DataType::f32, count});
  return result;
}

using Plan = std::vector<Bucket>;

}  // namespace

TEST_CASE("no parameters make no buckets") {
  CHECK(plan_buckets({}, {1, 1}).empty());
}

TEST_CASE("a bucket is closed once it holds at least the limit") {
  // 64 bytes each: the first bucket is full with one, the others with two.
  const Plan plan = plan_buckets(floats({16, 16, 16, 16, 16}), {64, 128});
  CHECK(plan == Plan{{DataType::f32, 16, {{4, 0}}},
                     {DataType::f32, 32, {{3, 0}, {2, 16}}},
                     {DataType::f32, 32, {{1, 0}, {0, 16}}}});
}

TEST_CASE("a bucket overshoots by up to one parameter") {
  const Plan plan = plan_buckets(floats({16, 1600, 16}), {65, 65});
  CHECK(plan == Plan{{DataType::f32, 1616, {{2, 0}, {1, 16}}}, {DataType::f32, 16, {{0, 0}}}});
}

TEST_CASE("one huge parameter fills a bucket of its own kind of size") {
  const std::size_t huge = std::size_t{1} << 40;
  const Plan plan = plan_buckets(floats({huge}), {std::size_t{1} << 20, std::size_t{25} << 20});
  CHECK(plan == Plan{{DataType::f32, huge, {{0, 0}}}});
}

TEST_CASE("what fills no bucket comes last") {
  const Plan plan = plan_buckets(floats({16, 16, 16}), {64, 1 << 20});
  CHECK(plan == Plan{{DataType::f32, 16, {{2, 0}}}, {DataType::f32, 32, {{1, 0}, {0, 16}}}});
}

TEST_CASE("every gradient begins at a multiple of 64 bytes") {
  CHECK(plan_buckets(floats({1, 17, 3}), {1 << 20, 1 << 20}) == Plan{{DataType::f32, 64, {{2, 0}, {1, 16}, {0, 48}}}});
  const std::vector<ParameterSize> doubles = {{DataType::f64, 9}, {DataType::f64, 1}};
  CHECK(plan_buckets(doubles, {1 << 20, 1 << 20}) == Plan{{DataType::f64, 24, {{1, 0}, {0, 8}}}});
}

TEST_CASE("types do not share a bucket and the open rest comes in the order of first use") {
  const std::vector<ParameterSize> mixed = {
      {DataType::f32, 16}, {DataType::f64, 8}, {DataType::f32, 16}, {DataType::f64, 8}};
  CHECK(plan_buckets(mixed, {1 << 20, 1 << 20}) ==
        Plan{{DataType::f64, 16, {{3, 0}, {1, 8}}}, {DataType::f32, 32, {{2, 0}, {0, 16}}}});
  // Closed in the order in which they fill, whatever the type; only the first has the small limit.
  CHECK(plan_buckets(mixed, {64, 128}) ==
        Plan{{DataType::f64, 8, {{3, 0}}}, {DataType::f32, 32, {{2, 0}, {0, 16}}}, {DataType::f64, 8, {{1, 0}}}});
}

TEST_CASE("limits of zero give every parameter a bucket") {
  CHECK(plan_buckets(floats({0, 1, 16}), {0, 0}).size() == 3);
}

TEST_CASE("an empty parameter has its place too") {
  const Plan plan = plan_buckets(floats({16, 0, 16}), {1 << 20, 1 << 20});
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].slots == std::vector<BucketSlot>{{2, 0}, {1, 16}, {0, 16}});
}

TEST_CASE("any model has every parameter once and nothing overlaps") {
  const unsigned seed = ddp::test::random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 generator(seed);
  for (int round = 0; round < 300; ++round) {
    INFO("round " << round);
    std::vector<ParameterSize> parameters(generator() % 60);
    for (ParameterSize& parameter : parameters) {
      parameter = {generator() % 3 == 0 ? DataType::f64 : DataType::f32, generator() % 500};
    }
    const ddp::BucketLimits limits{generator() % 2000, generator() % 5000};
    std::set<std::size_t> seen;
    const Plan plan = plan_buckets(parameters, limits);
    for (const Bucket& bucket : plan) {
      REQUIRE_FALSE(bucket.slots.empty());
      std::size_t end = 0;
      std::size_t last_parameter = parameters.size();
      for (const BucketSlot& slot : bucket.slots) {
        REQUIRE(seen.insert(slot.parameter).second);
        REQUIRE(slot.parameter < last_parameter);  // from the last to the first
        REQUIRE(parameters[slot.parameter].type == bucket.type);
        REQUIRE(slot.first * size_of(bucket.type) % 64 == 0);
        REQUIRE(slot.first >= end);
        end = slot.first + parameters[slot.parameter].count;
        last_parameter = slot.parameter;
      }
      REQUIRE(end <= bucket.count);
      REQUIRE(bucket.count < end + kFloatsPerLine);
    }
    REQUIRE(seen.size() == parameters.size());
    REQUIRE(plan_buckets(parameters, limits) == plan);
  }
}
