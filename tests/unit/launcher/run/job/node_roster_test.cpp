#include "launcher/run/job/node_roster.h"

#include "support/catch.h"
#include "support/coordinator_job.h"

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

TEST_CASE("nodes get their places in the order of arrival, and extra nodes are left over") {
  NodeRoster roster = three_nodes(2);
  CHECK(roster.spares().empty());
  const auto seating = roster.seat(kNow);
  CHECK(roster.spares() == std::vector<std::string>{"a#2"});
  CHECK(seating.seated == std::vector<NodeId>{kOwnNode, 7});
  CHECK(seating.left_over == std::vector<NodeId>{8});
  CHECK(seating.world_size == 3);
  CHECK(seating.text == "a (ranks 0-1), b (rank 2, 10.0.0.7)");
  CHECK(roster.node_of(2) == "b");
  CHECK(roster.node_of(3).empty());
}

TEST_CASE("nodes keep their places, and a new node takes the place of a lost one") {
  NodeRoster roster = three_nodes(3);
  CHECK(roster.seat(kNow).seated == std::vector<NodeId>{kOwnNode, 7, 8});
  roster.remove(7);
  roster.add(9, "10.0.0.9", hello("c", 1), kNow, kNow);
  const auto seating = roster.seat(kNow);
  CHECK(seating.seated == std::vector<NodeId>{kOwnNode, 9, 8});
  CHECK(roster.at(8).first_rank == 3);
  CHECK(seating.text == "a (ranks 0-1), c (rank 2, 10.0.0.9), a#2 (ranks 3-4, 10.0.0.8)");
}

TEST_CASE("with fewer places only the nodes beyond the last place move") {
  NodeRoster roster = three_nodes(3);
  roster.add(9, "10.0.0.9", hello("c", 1), kNow, kNow);
  CHECK(roster.seat(kNow).left_over == std::vector<NodeId>{9});
  roster.remove(7);
  roster.remove(9);
  CHECK(roster.seat(kNow).seated == std::vector<NodeId>{kOwnNode, 8});
  roster.add(10, "10.0.0.10", hello("d", 1), kNow, kNow);
  CHECK(roster.seat(kNow).seated == std::vector<NodeId>{kOwnNode, 8, 10});
}

TEST_CASE("nodes with numbers are placed by number, and a missing one is named") {
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

TEST_CASE("two nodes on one host get different names") {
  NodeRoster roster = three_nodes(3);
  CHECK(roster.here() == "a, b, a#2");
  CHECK(roster.at(8).name == "a#2");
}

TEST_CASE("a quarantined node has no place until its quarantine ends") {
  NodeRoster roster(3, /*is_static=*/false);
  roster.add(kOwnNode, "", hello("a"), kNow, kNow);
  roster.add(7, "", hello("b"), kNow + 10s, kNow);
  CHECK(roster.count_those_that_may(kNow) == 1);
  CHECK(roster.check_again_at() == kNow + 10s);
  CHECK(roster.seat(kNow).left_over == std::vector<NodeId>{7});
  CHECK(roster.count_those_that_may(kNow + 10s) == 2);
  CHECK(roster.seat(kNow + 10s).seated == std::vector<NodeId>{kOwnNode, 7});
}

TEST_CASE("the awaited ranks are listed by node") {
  NodeRoster roster = three_nodes(3);
  roster.seat(kNow);
  CHECK(roster.ranks_but({0, 2}) == "rank 1 on a, ranks 3, 4 on a#2");
  roster.at(8).has_ended = true;
  CHECK(roster.ranks_but({0, 2}) == "rank 1 on a");
}

TEST_CASE("the quarantine of a host grows each time that it is lost") {
  const QuarantinedNodes::TimePoint start{1h};
  QuarantinedNodes hosts;
  CHECK(hosts.may_return("b") < start);
  hosts.was_lost("b", start);
  CHECK(hosts.may_return("b") < start);
  hosts.was_lost("b", start + 1min);
  CHECK(hosts.may_return("b") == start + 1min + 30s);
  hosts.was_lost("b", start + 2min);
  CHECK(hosts.may_return("b") == start + 3min);
  for (int i = 0; i < 20; ++i) hosts.was_lost("b", start + 3min);
  CHECK(hosts.may_return("b") == start + 13min);
  CHECK(hosts.may_return("c") < start);
  hosts.was_lost("b", start + 2h);
  CHECK(hosts.may_return("b") < start);
}

TEST_CASE("a job continues without a quarantined host, and with it after the quarantine") {
  CoordinatorOptions options;
  options.nodes.min = 1;
  options.nodes.max = 2;
  options.nodes.last_call = 1s;
  options.max_restarts = 20;
  CoordinatorJob job(options);
  // Node b is lost twice, and then kept out of the job.
  for (NodeId id = 7; id < 9; ++id) {
    job.comes(id, node("b")).loses(id).says(kOwnNode, wire::NodeEnded{static_cast<int>(id) - 7});
    job.passes(300ms);
  }
  job.comes(9, node("b")).passes(2s, {9});
  CHECK(job.to<wire::CoordinatorBegins>(9).empty());
  REQUIRE(job.to<wire::CoordinatorBegins>(kOwnNode).back().world_size == 2);
  REQUIRE_FALSE(job.to<wire::CoordinatorWaits>(9).empty());
  CHECK_THAT(job.to<wire::CoordinatorWaits>(9)[0].text, Catch::StartsWith("this node was lost repeatedly"));
  job.passes(40s, {9}).says(kOwnNode, wire::NodeFailed{2, failure("rank 0: exit code 3")});
  job.says(kOwnNode, wire::NodeEnded{2}).passes(2s, {9});
  CHECK(job.to<wire::CoordinatorBegins>(9).size() == 1);
}

TEST_CASE("a job that needs a quarantined host waits for it") {
  CoordinatorOptions options;
  options.max_restarts = 20;
  options.nodes.join_timeout = 300s;
  CoordinatorJob job(options);
  for (NodeId id = 7; id < 9; ++id) {
    job.comes(id, node("b")).loses(id).says(kOwnNode, wire::NodeEnded{static_cast<int>(id) - 7}).passes(300ms);
  }
  job.comes(9, node("b")).passes(20s, {9});
  CHECK(job.to<wire::CoordinatorBegins>(9).empty());
  job.passes(15s, {9});
  CHECK(job.to<wire::CoordinatorBegins>(9).size() == 1);
}
