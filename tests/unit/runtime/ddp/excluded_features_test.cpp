#include "runtime/ddp/excluded_features.h"

#include <string>

#include "support/catch.h"

using namespace ddp::internal;

TEST_CASE("a feature is refused with the message of the feature that excludes it") {
  const auto uses = [](Feature used) { return [used](Feature feature) { return feature == used; }; };
  const char* message = find_exclusion(Feature::local_sgd, uses(Feature::shard_optimizer));
  REQUIRE(message != nullptr);
  CHECK(std::string(message).starts_with("LocalSgd: with ShardOptimizer"));
  CHECK(find_exclusion(Feature::local_sgd, uses(Feature::join)) == nullptr);
  CHECK(find_exclusion(Feature::no_sync, [](Feature) { return true; }) == nullptr);
}

TEST_CASE("no pair of features is listed twice") {
  for (const ExcludedPair& pair : kExcludedPairs) {
    int rows = 0;
    for (const ExcludedPair& other : kExcludedPairs) {
      rows += pair.asked == other.asked && pair.present == other.present ? 1 : 0;
    }
    CHECK(rows == 1);
  }
}
