#include "launcher/see/view/span_lanes.h"

#include <algorithm>
#include <random>
#include <vector>

#include "support/catch.h"
#include "support/random_seed.h"

using ddp::launcher::SpanLanes;

TEST_CASE("spans that are disjoint or nested share a lane") {
  SpanLanes lanes(1);
  CHECK(lanes.place(10, 20) == 0);
  CHECK(lanes.place(20, 30) == 0);
  CHECK(lanes.place(22, 28) == 0);
  CHECK(lanes.place(22, 28) == 0);
  CHECK(lanes.place(0, 40) == 0);
  CHECK(lanes.place(50, 60) == 0);
  CHECK(lanes.place(45, 45) == 0);
}

TEST_CASE("overlapping spans use different lanes") {
  SpanLanes lanes(2);
  CHECK(lanes.place(10, 20) == 0);
  CHECK(lanes.place(15, 25) == 1);
  CHECK_FALSE(lanes.place(18, 30));
  CHECK(lanes.place(20, 30) == 0);
  CHECK(lanes.place(5, 12) == 1);
}

TEST_CASE("spans on one lane never overlap, however many there are") {
  std::mt19937_64 random(ddp::test::random_seed());
  struct Placed {
    std::uint64_t begin;
    std::uint64_t end;
  };
  SpanLanes lanes(3);
  std::vector<std::vector<Placed>> placed(3);
  std::uint64_t now = 1000;
  for (int i = 0; i < 3000; ++i) {
    now += random() % 20;
    const std::uint64_t begin = now - random() % 1000;
    const std::uint64_t end = std::max(begin, now - random() % 30);
    if (const auto lane = lanes.place(begin, end)) placed.at(static_cast<std::size_t>(*lane)).push_back({begin, end});
  }
  std::size_t count = 0;
  for (auto& lane : placed) {
    count += lane.size();
    std::ranges::sort(
        lane, [](const Placed& a, const Placed& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
    std::vector<std::uint64_t> open;
    for (const Placed& span : lane) {
      while (!open.empty() && open.back() <= span.begin) open.pop_back();
      REQUIRE((open.empty() || span.end <= open.back()));
      open.push_back(span.end);
    }
  }
  CHECK(count > 500);
}
