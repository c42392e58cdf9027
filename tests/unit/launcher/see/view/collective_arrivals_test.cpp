#include "launcher/see/view/collective_arrivals.h"

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kHeld = static_cast<std::uint64_t>(std::chrono::nanoseconds(limits::kTraceHeld).count());

CollectiveArrival arrival(int rank, std::uint64_t begin, std::uint64_t error = 0) {
  return {rank, 1, begin, begin + 10 * kMs, error};
}

}  // namespace

TEST_CASE("a collective is complete when all ranks of its group have recorded it") {
  CollectiveArrivals arrivals;
  CHECK_FALSE(arrivals.add({1, 7}, 3, arrival(0, 5), 100));
  CHECK_FALSE(arrivals.add({1, 8}, 3, arrival(0, 6), 100));
  CHECK_FALSE(arrivals.add({2, 7}, 3, arrival(5, 6), 100));
  CHECK_FALSE(arrivals.add({1, 7}, 3, arrival(2, 5), 200));
  CHECK(arrivals.add({1, 7}, 3, arrival(1, 9), 300) == std::vector{arrival(0, 5), arrival(2, 5), arrival(1, 9)});
  CHECK(arrivals.held() == 2);
  arrivals.clear();
  CHECK(arrivals.held() == 0);
}

TEST_CASE("a collective that some ranks never record is discarded") {
  CollectiveArrivals arrivals;
  CHECK_FALSE(arrivals.add({1, 7}, 2, arrival(0, 5), 100));
  CHECK_FALSE(arrivals.add({1, 8}, 2, arrival(0, 5), 100 + kHeld / 2));
  CHECK_FALSE(arrivals.add({1, 7}, 2, arrival(1, 5), 100 + kHeld));
  CHECK(arrivals.add({1, 8}, 2, arrival(1, 5), 100 + kHeld));
  CHECK(arrivals.held() == 1);
}

TEST_CASE("the number of kept arrivals is limited") {
  CollectiveArrivals arrivals;
  for (std::uint32_t i = 0; i < limits::kTraceHeldArrivals + 100; ++i) {
    REQUIRE_FALSE(arrivals.add({1, i}, 2, arrival(0, 5), 100));
  }
  CHECK(arrivals.held() <= limits::kTraceHeldArrivals);
  CHECK_FALSE(arrivals.add({1, 5}, 2, arrival(1, 5), 100));
  CHECK(arrivals.add({1, limits::kTraceHeldArrivals + 50}, 2, arrival(1, 5), 100));
}

TEST_CASE("groups without an identity are distinguished by name and size") {
  CHECK(id_of({5, "a", 2}, 1) == id_of({5, "b", 2}, 1));
  CHECK_FALSE(id_of({0, "a", 2}, 1) == id_of({0, "b", 2}, 1));
  CHECK_FALSE(id_of({0, "a", 2}, 1) == id_of({0, "a", 3}, 1));
  CHECK(id_of({0, "a", 2}, 1) == id_of({0, "a", 2}, 1));
}

TEST_CASE("the last rank and the ranks that waited for it are named") {
  const auto lateness =
      lateness_of({arrival(0, 5 * kMs), arrival(1, 9 * kMs), arrival(2, kMs), arrival(3, 9 * kMs - 10)});
  REQUIRE(lateness);
  CHECK(lateness->last.rank == 1);
  CHECK(lateness->waited == std::vector{arrival(2, kMs), arrival(0, 5 * kMs)});
}

TEST_CASE("waits that are shorter than the clock errors are not reported") {
  CHECK_FALSE(lateness_of({arrival(0, 5 * kMs), arrival(1, 5 * kMs + 1000)}));
  CHECK_FALSE(lateness_of({arrival(0, 5 * kMs, kMs), arrival(1, 7 * kMs, kMs)}));
  CHECK(lateness_of({arrival(0, 5 * kMs, kMs), arrival(1, 8 * kMs, kMs)}));
}

TEST_CASE("a rank that left before the last arrival did not wait for it") {
  CHECK_FALSE(lateness_of({arrival(0, 5 * kMs), arrival(1, 16 * kMs)}));
  CollectiveArrival unknown = arrival(0, 5 * kMs);
  unknown.end = unknown.begin;
  CHECK(lateness_of({unknown, arrival(1, 16 * kMs)}));
}

TEST_CASE("only the longest waits of a large group get arrows") {
  std::vector<CollectiveArrival> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back({i, 1, static_cast<std::uint64_t>(i) * kMs, 2000 * kMs, 0});
  }
  const auto lateness = lateness_of(many);
  REQUIRE(lateness);
  CHECK(lateness->last.rank == 999);
  REQUIRE(lateness->waited.size() == limits::kTraceArrows);
  CHECK(lateness->waited.back().rank == static_cast<int>(limits::kTraceArrows) - 1);
}
