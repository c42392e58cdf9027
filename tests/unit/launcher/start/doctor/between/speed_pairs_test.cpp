#include "launcher/start/doctor/between/speed_pairs.h"

#include "support/catch.h"

using namespace ddp::launcher::doctor;

using Pairs = std::vector<NodePair>;

TEST_CASE("neighbours measure first, and then the slowest with the fastest") {
  const std::vector nodes = {0, 1, 2, 3};
  CHECK(first_pairs(nodes) == Pairs{{0, 1}, {2, 3}});
  CHECK(first_pairs(std::vector{0, 2, 5}) == Pairs{{0, 2}});
  CHECK(first_pairs(std::vector{0}).empty());
  const std::vector<Speed> first = {{0, 1, 9, 9}, {2, 3, 1, 9}};
  CHECK(second_pairs(nodes, first) == Pairs{{1, 2}, {0, 3}});
  CHECK(second_pairs(std::vector{0, 1, 2}, std::vector<Speed>{{0, 1, 9, 9}}) == Pairs{{1, 2}});
}

TEST_CASE("a node is slow if it is slow in both rounds, among four nodes or more") {
  const Speed slow{0, 3, 1, 9};
  CHECK(slow_nodes(std::vector<Speed>{{0, 1, 9, 9}, {2, 3, 2, 9}, slow, {1, 2, 9, 9}}) == std::vector{3});
  CHECK(slow_nodes(std::vector<Speed>{{0, 1, 9, 9}, {2, 3, 9, 9}, slow, {1, 2, 9, 9}}).empty());
  CHECK(slow_nodes(std::vector<Speed>{{0, 1, 9, 9}, slow, slow}).empty());
  CHECK(slow_nodes({}).empty());
}
