#include "launcher/job/node_roster.h"

#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

const NodeRoster::TimePoint kNow{1h};

wire::NodeHello hello(const std::string& host, int workers = 2, int number = wire::kAnyNodeRank) {
  wire::NodeHello hello;
  hello.host = host;
  hello.workers = workers;
  hello.node_rank = number;
  return hello;
}

NodeRoster three_nodes(int max_nodes) {
  NodeRoster roster(max_nodes, /*is_static=*/false);
  roster.add(kOwnNode, "", hello("a"), kNow, kNow);
  roster.add(7, "10.0.0.7", hello("b", 1), kNow, kNow);
  roster.add(8, "10.0.0.8", hello("a"), kNow, kNow);
  return roster;
}

}  // namespace

TEST_CASE("nodes are seated in the order of their arrival, and those without a place are left over") {
  NodeRoster roster = three_nodes(2);
  const auto seating = roster.seat(kNow);
  CHECK(seating.seated == std::vector<NodeId>{kOwnNode, 7});
  CHECK(seating.left_over == std::vector<NodeId>{8});
  CHECK(seating.world_size == 3);
  CHECK(seating.text == "a (ranks 0-1), b (rank 2, 10.0.0.7)");
  CHECK(roster.node_of(2) == "b");
  CHECK(roster.node_of(3).empty());
}

TEST_CASE("nodes that have numbers are seated by these, and one that is missing is named") {
  NodeRoster roster(3, /*is_static=*/true);
  roster.add(kOwnNode, "", hello("a", 1, 0), kNow, kNow);
  roster.add(7, "", hello("c", 1, 2), kNow, kNow);
  CHECK(roster.here() == "a, c; missing: --node-rank 1");
  CHECK(roster.with_number(2) == NodeId{7});
  roster.add(8, "", hello("b", 1, 1), kNow, kNow);
  CHECK(roster.seat(kNow).seated == std::vector<NodeId>{kOwnNode, 8, 7});
  roster.remove(7);
  CHECK_FALSE(roster.with_number(2));
}

TEST_CASE("two nodes of one host have different names") {
  NodeRoster roster = three_nodes(3);
  CHECK(roster.here() == "a, b, a#2");
  CHECK(roster.at(8).name == "a#2");
}

TEST_CASE("a node that is kept out for a while has no place until then") {
  NodeRoster roster(3, /*is_static=*/false);
  roster.add(kOwnNode, "", hello("a"), kNow, kNow);
  roster.add(7, "", hello("b"), kNow + 10s, kNow);
  CHECK(roster.count_those_that_may(kNow) == 1);
  CHECK(roster.look_again_at() == kNow + 10s);
  CHECK(roster.seat(kNow).left_over == std::vector<NodeId>{7});
  CHECK(roster.count_those_that_may(kNow + 10s) == 2);
  CHECK(roster.seat(kNow + 10s).seated == std::vector<NodeId>{kOwnNode, 7});
}

TEST_CASE("the ranks that are waited for are told by node") {
  NodeRoster roster = three_nodes(3);
  roster.seat(kNow);
  CHECK(roster.ranks_but({0, 2}) == "rank 1 on a, ranks 3, 4 on a#2");
  roster.at(8).has_ended = true;
  CHECK(roster.ranks_but({0, 2}) == "rank 1 on a");
}
