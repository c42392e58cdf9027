#include "launcher/run/job/succession.h"

#include <algorithm>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

wire::CoordinatorBegins begins(int attempt, int node_rank, int nodes, const wire::Electorate& electorate) {
  wire::CoordinatorBegins begins{.attempt = attempt, .node_rank = node_rank, .node_count = nodes};
  begins.standing.job_key = "k";
  begins.standing.electorate = electorate;
  for (int i = 1; i < nodes; ++i) begins.standing.successors.push_back({i, "10.0.0." + std::to_string(i), 29400});
  return begins;
}

// Returns what node `node_rank` of three knows when the coordinator has died.
Succession orphan(int node_rank) {
  Succession node;
  node.hears(begins(0, node_rank, 3, {0, 3, 0, {}}));
  node.coordinator_died();
  return node;
}

std::set<int> set_of(unsigned bits) {
  std::set<int> numbers;
  for (int i = 0; i < 8; ++i) {
    if ((bits >> i & 1U) != 0) numbers.insert(i);
  }
  return numbers;
}

}  // namespace

TEST_CASE("two of three nodes may continue the job, and one may not") {
  Election election(orphan(1).vote(true));
  CHECK_FALSE(election.is_decided());
  CHECK(election.describe() == "1 of 2 nodes");
  election.add(7, orphan(2).vote(true));
  CHECK(election.is_decided());
  CHECK(election.is_complete());
  election.lose(7, /*has_ended=*/true);
  CHECK(election.is_decided());
  CHECK(election.describe() == "1 of 1 node");
}

TEST_CASE("one of two nodes may continue the job when the other is certainly dead") {
  Succession node;
  node.hears(begins(0, 1, 2, {0, 2, 0, {}}));
  CHECK_FALSE(Election(node.vote(true)).is_decided());
  node.coordinator_died();
  CHECK(Election(node.vote(true)).is_decided());
}

TEST_CASE("the successor is the lowest living node in rank order") {
  Succession node = orphan(2);
  REQUIRE(node.before_this().size() == 1);
  CHECK(node.before_this()[0].node_rank == 1);
  CHECK(node.may_lead());
  node.follows(node.before_this()[0]);
  CHECK(node.before_this().size() == 1);
  node.coordinator_died();
  CHECK(node.before_this().empty());
  CHECK(node.vote(true).electorate.gone == std::vector{0, 1});
  CHECK(Election(node.vote(true)).is_decided());
}

TEST_CASE("a spare node neither leads nor votes") {
  Succession spare;
  CHECK_FALSE(spare.is_possible());
  spare.hears(begins(0, 1, 3, {0, 3, 0, {}}).standing);
  CHECK(spare.is_possible());
  CHECK_FALSE(spare.may_lead());
  CHECK(spare.before_this().size() == 2);
  CHECK(spare.vote(true).job_key.empty());
}

TEST_CASE("new nodes cannot lead a job before a majority of the old nodes confirms them") {
  // Attempt 1 has nodes 1 and 2 of attempt 0, and four new ones. Only the new ones know of it.
  Election election([] {
    Succession node;
    node.hears(begins(1, 2, 6, {0, 3, 0, {}}));
    node.coordinator_died();
    return node.vote(true);
  }());
  for (int node_rank = 3; node_rank < 6; ++node_rank) {
    Succession node;
    node.hears(begins(1, node_rank, 6, {0, 3, 0, {}}));
    node.coordinator_died();
    election.add(static_cast<std::uint64_t>(node_rank), node.vote(true));
  }
  CHECK_FALSE(election.is_decided());
  // With one that knows the new electorate, they do.
  Succession knows;
  knows.hears(begins(1, 1, 6, {0, 3, 0, {}}));
  knows.hears(wire::Electorate{1, 6, 0, {}});
  knows.coordinator_died();
  election.add(1, knows.vote(true));
  CHECK(election.is_decided());
  CHECK(election.attempt() == 1);
}

TEST_CASE("an election learns about a newer attempt from its voters") {
  Election election(orphan(1).vote(true));
  Succession newer;
  newer.hears(begins(0, 2, 3, {0, 3, 0, {}}));
  auto next = begins(1, 1, 2, {0, 3, 0, {}});
  next.standing.history.counted = 5;
  newer.hears(next);
  newer.coordinator_died();
  election.add(7, newer.vote(true));
  CHECK(election.attempt() == 1);
  CHECK(election.history().counted == 5);
  // The coordinator may have led attempt 1 with other nodes, and they without it now.
  CHECK_FALSE(election.is_decided());
  newer.hears(wire::Electorate{1, 2, -1, {0}});
  election.add(7, newer.vote(true));
  CHECK(election.is_decided());
}

TEST_CASE("a node that knows a newer attempt does not vote in an older electorate") {
  const wire::Electorate electorate{1, 3, 0, {}};
  const std::vector<wire::Membership> old = {{0, 2}, {1, 1}};
  const std::vector<wire::Membership> newer = {{1, 1}, {2, 0}};
  CHECK(vote_in(old, electorate) == 1);
  CHECK(vote_in(newer, electorate) == -1);
  CHECK(vote_in(newer, {2, 2, 0, {}}) == 0);
  CHECK(vote_in(newer, {3, 2, 0, {}}) == -1);
  // Attempt 1 has nodes 0 and 2. Node 1 was frozen, and the message about the new electorate was lost.
  Succession frozen;
  frozen.hears(begins(0, 1, 3, {0, 3, 0, {}}));
  frozen.coordinator_is_silent();
  Succession knows;
  knows.hears(begins(0, 2, 3, {0, 3, 0, {}}));
  knows.hears(begins(1, 1, 2, {0, 3, 0, {}}));
  knows.coordinator_is_silent();
  Election election(knows.vote(true));
  election.add(7, frozen.vote(true));
  CHECK_FALSE(election.is_decided());
  CHECK(may_be_replaced({0, 3, 0, {}}, {0, 2}, {0, 2}));
}

TEST_CASE("two disjoint groups of nodes never both decide an election") {
  for (int nodes = 1; nodes <= 6; ++nodes) {
    const unsigned all = (1U << nodes) - 1;
    for (unsigned gone = 0; gone <= all; ++gone) {
      const std::set<int> missing = set_of(gone);
      const wire::Electorate led{0, nodes, (gone & 1U) != 0 ? -1 : 0, {missing.begin(), missing.end()}};
      const wire::Electorate orphaned = without(led, 0);
      for (unsigned one = 0; one <= all; ++one) {
        const unsigned other = all & ~one;
        CHECK_FALSE((is_majority(led, set_of(one)) && is_majority(led, set_of(other))));
        // The leader is dead. Those that decide then include one that knew of the attempt.
        const std::set<int> know = set_of(one);
        const bool is_replaced = may_be_replaced(led, know, set_of(all));
        CHECK_FALSE((is_replaced && is_majority(orphaned, set_of(other & ~1U))));
        // The leader is silent, and none but those that know is connected to it.
        const bool is_replaced_for_lost = may_be_replaced(led, know, know);
        CHECK_FALSE((is_replaced_for_lost && is_majority(led, set_of(other & ~1U))));
        const auto answering =
            std::ranges::count_if(know, [&](int one_of) { return one_of != led.leader && is_voter(led, one_of); });
        CHECK_FALSE((answering >= others_needed(led) && is_majority(led, set_of(other & ~1U))));
      }
    }
  }
}

TEST_CASE("messages from outside of the electorate change nothing") {
  const wire::Electorate electorate{0, 3, 0, {}};
  CHECK(without(electorate, -1) == electorate);
  CHECK(without(electorate, 3) == electorate);
  CHECK(without(without(electorate, 1), 1).gone == std::vector{1});
  CHECK(without(electorate, 0).leader == -1);
  CHECK_FALSE(is_majority(electorate, {-1, 7, 1}));
  CHECK(merged({1, 2, 0, {}}, {0, 9, 0, {1, 2}}).gone.empty());
  CHECK(merged({1, 3, 0, {1}}, {1, 3, 2, {2}}).gone == std::vector{1, 2});
  std::vector<wire::Membership> memberships;
  for (const int attempt : {0, 1, 1, 2}) remember(memberships, {attempt, attempt + 10});
  CHECK(node_rank_in(memberships, 0) == -1);
  CHECK(node_rank_in(memberships, 1) == 11);
  CHECK(node_rank_in(memberships, 2) == 12);
  CHECK(node_rank_in(memberships, -1) == -1);
}

TEST_CASE("a witness decides between two nodes if neither is certainly dead") {
  CHECK(may_be_claimed({0, 2, 0, {}}));
  CHECK(may_be_claimed({3, 2, -1, {}}));
  CHECK_FALSE(may_be_claimed({}));
  CHECK_FALSE(may_be_claimed({0, 2, -1, {0}}));
  CHECK_FALSE(may_be_claimed({0, 3, 0, {2}}));
  CHECK(others_needed({0, 2, 0, {}}, Leads::by_both) == 1);
  CHECK(others_needed({0, 2, -1, {}}, Leads::by_both) == 2);
  CHECK(others_needed({0, 2, 0, {}}, Leads::by_claim) == 0);
  CHECK(others_needed({0, 2, 0, {}}) == 0);
}

TEST_CASE("with two nodes and a witness, an electorate is replaced only after the other node confirms it") {
  const wire::Electorate two{0, 2, 0, {}};
  CHECK_FALSE(may_be_replaced(two, {0}, {0, 1}, Leads::by_both));
  CHECK_FALSE(may_be_replaced(two, {0}, {0}, Leads::by_both));
  CHECK(may_be_replaced(two, {0, 1}, {0, 1}, Leads::by_both));
  // With a claim, the other node can see a death only if it is connected.
  CHECK_FALSE(may_be_replaced(two, {0}, {0, 1}, Leads::by_claim));
  CHECK(may_be_replaced(two, {0}, {0}, Leads::by_claim));
}

TEST_CASE("a node claims the electorate of the newest attempt that it knows") {
  Succession node;
  node.hears(begins(0, 1, 2, {0, 2, 0, {}}));
  node.coordinator_is_silent();
  CHECK(Election(node.vote(true)).may_claim());
  CHECK_FALSE(Election(node.vote(true)).is_decided());
  Succession knows = node;
  knows.hears(begins(1, 1, 2, {0, 2, 0, {}}));
  knows.coordinator_is_silent();
  CHECK_FALSE(Election(knows.vote(true)).may_claim());
  knows.hears(wire::Electorate{1, 2, 0, {}});
  CHECK(Election(knows.vote(true)).may_claim());
  // A node that comes new to attempt 1 is none of the old electorate.
  Succession newcomer;
  newcomer.hears(begins(1, 1, 2, {0, 2, 0, {}}));
  CHECK_FALSE(Election(newcomer.vote(true)).may_claim());
  Succession of_a_dead_one;
  of_a_dead_one.hears(begins(0, 1, 2, {0, 2, 0, {}}));
  of_a_dead_one.coordinator_died();
  CHECK_FALSE(Election(of_a_dead_one.vote(true)).may_claim());
}
