#include "store/server/store_waiters.h"

#include <map>
#include <random>
#include <set>

#include "store/limits.h"
#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp::store;
using Ids = std::vector<ConnectionId>;

TEST_CASE("waits end in the order in which they began") {
  StoreWaiters waiters;
  for (const ConnectionId id : {7, 3, 5}) waiters.add(id, {"k"}, {});
  CHECK(waiters.waiting_for("k") == Ids{7, 3, 5});
  CHECK(waiters.wake_one("k") == 7);
  CHECK(waiters.wake_all("k") == Ids{3, 5});
  CHECK(waiters.wake_all("k").empty());
  CHECK(waiters.count() == 0);
  CHECK(waiters.bytes() == 0);
}

TEST_CASE("a long wait names its first keys") {
  StoreWaiters waiters;
  std::set<std::string> keys;
  for (int i = 100; i < 200; ++i) keys.insert("k" + std::to_string(i));
  waiters.add(1, keys, {});
  const auto wait = waiters.find(1);
  REQUIRE(wait);
  CHECK(wait->key_count == 100);
  CHECK(wait->keys.size() == ddp::limits::kStoreNamedKeys);
  CHECK(wait->keys.front() == "k100");
  CHECK_FALSE(waiters.find(2));
  CHECK(waiters.remove(1)->key_count == 100);
  CHECK_FALSE(waiters.remove(1));
  CHECK(waiters.bytes() == 0);
}

// Compares with a model that is too simple to be wrong.
TEST_CASE("random waits, wakes and departures agree with a simple model") {
  const unsigned seed = ddp::test::random_seed();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  StoreWaiters waiters;
  std::map<ConnectionId, std::set<std::string>> model;
  for (int step = 0; step < 20'000; ++step) {
    const auto id = static_cast<ConnectionId>(pick(20));
    const std::string key = std::to_string(pick(10));
    if (pick(3) > 0) {
      if (model.contains(id)) continue;
      std::set<std::string> keys = {key, std::to_string(pick(10)), std::to_string(pick(10))};
      waiters.add(id, keys, {});
      model.emplace(id, keys);
    } else if (pick(2) > 0) {
      CHECK(waiters.remove(id).has_value() == (model.erase(id) > 0));
    } else {
      std::set<ConnectionId> woken;
      for (auto& [other, keys] : model) {
        if (keys.erase(key) > 0 && keys.empty()) woken.insert(other);
      }
      for (const ConnectionId other : woken) model.erase(other);
      const Ids got = waiters.wake_all(key);
      REQUIRE(std::set<ConnectionId>(got.begin(), got.end()) == woken);
    }
    REQUIRE(waiters.count() == model.size());
  }
  for (const auto& [id, keys] : model) CHECK(waiters.remove(id)->key_count == keys.size());
  CHECK(waiters.bytes() == 0);
}
