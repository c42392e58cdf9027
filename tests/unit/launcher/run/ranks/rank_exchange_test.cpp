#include "launcher/run/ranks/rank_exchange.h"

#include "launcher/run/ranks/shown_ranks.h"
#include "support/catch.h"
#include "support/recording_channel.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

Placement two_nodes() {
  Placement place;
  place.node_count = 2;
  place.world_size = 4;
  return place;
}

RankView rank(int number, std::uint64_t version) {
  RankView view;
  view.rank = number;
  view.pid = 100 + number;
  view.version = version;
  return view;
}

const RankExchange::TimePoint kNow{1h};

}  // namespace

TEST_CASE("a node sends its ranks only if they changed, and at a limited rate") {
  RecordingChannel nodes(false);
  RankExchange exchange;
  exchange.begin(nodes, two_nodes());
  REQUIRE(exchange.may_show(kNow));
  exchange.show(std::vector{rank(2, 7)}, kNow);
  CHECK(nodes.shown.size() == 1);
  CHECK_FALSE(exchange.may_show(kNow + 99ms));
  REQUIRE(exchange.may_show(kNow + 200ms));
  exchange.show(std::vector{rank(2, 7)}, kNow + 200ms);
  CHECK(nodes.shown.size() == 1);
  exchange.show(std::vector{rank(2, 8)}, kNow + 200ms);
  CHECK(nodes.shown.size() == 2);
  RankView ended = rank(2, 8);
  ended.has_ended = true;
  exchange.show(std::vector{ended}, kNow + 1s);
  CHECK(nodes.shown.size() == 3);
}

TEST_CASE("neither the coordinator nor a job of one node sends rank views") {
  RecordingChannel coordinator(true);
  RankExchange exchange;
  exchange.begin(coordinator, two_nodes());
  CHECK_FALSE(exchange.may_show(kNow));
  RecordingChannel alone(false);
  exchange.begin(alone, {});
  CHECK_FALSE(exchange.may_show(kNow));
}

TEST_CASE("the description of a call stays known when only its fingerprint is sent again") {
  RecordingChannel nodes(true);
  RankExchange exchange;
  exchange.begin(nodes, two_nodes());
  RankView view = rank(2, 1);
  view.page.groups.push_back({"world", 2, 4, 0, 7, 7, 6, 0, 0});
  view.calls = {{{6, 60, 1, "barrier", "", ""}, {7, 70, 2, "all_reduce sum f32[8]", "bucket 0", "train.cpp:8"}}};
  const auto shows = [&](ShownCalls calls) {
    exchange.shown({7, "b", 0s, wire::Subject::ranks, show_ranks(std::vector{view}, calls)});
    return exchange.far().at(2).calls.at(0);
  };
  CHECK(shows(ShownCalls::digest).at(1).what.empty());
  CHECK(shows(ShownCalls::all) == view.calls[0]);
  CHECK(shows(ShownCalls::digest) == view.calls[0]);
  // A call with another fingerprint, or of another process or group, is a different call.
  view.calls[0][1].fingerprint = 71;
  CHECK(shows(ShownCalls::digest).at(1).what.empty());
  CHECK(shows(ShownCalls::digest).at(0).what == "barrier");
  view.page.groups[0].name = "pair";
  CHECK(shows(ShownCalls::digest).at(0).what.empty());
  shows(ShownCalls::all);
  ++view.pid;
  CHECK(shows(ShownCalls::digest).at(0).what.empty());
}

TEST_CASE("RankExchange keeps the last view of each remote rank and reports which node has sent no evidence") {
  RecordingChannel nodes(true);
  RankExchange exchange;
  exchange.begin(nodes, two_nodes());
  const auto shows = [&](const std::vector<RankView>& ranks) {
    exchange.shown({7, "b", 0s, wire::Subject::ranks, show_ranks(ranks, ShownCalls::digest)});
  };
  CHECK_FALSE(exchange.take_news());
  shows({rank(2, 1), rank(3, 1), rank(4, 1), rank(-1, 1)});  // only existing ranks count
  CHECK(exchange.take_news());
  CHECK_FALSE(exchange.take_news());
  CHECK(exchange.far().size() == 2);
  CHECK(exchange.far().at(3).node == "b");
  int notified = 0;
  exchange.on_evidence = [&] { ++notified; };
  exchange.ask_for_evidence(wire::Subject::stacks);
  exchange.ask_for_evidence(wire::Subject::last_evidence);
  CHECK(nodes.asked == std::vector{wire::Subject::stacks, wire::Subject::last_evidence});
  CHECK_FALSE(exchange.has_evidence());
  Evidence evidence;
  evidence.stacks.push_back({2, StackSource::gdb, {}, {}});
  evidence.sources.push_back({"flight recorder", "", {}, {}});
  exchange.shown({7, "b", 0s, wire::Subject::stacks, show_evidence(evidence, 1 << 20)});
  CHECK(notified == 0);  // this answers an earlier question
  exchange.shown({7, "b", 0s, wire::Subject::last_evidence, show_evidence(evidence, 1 << 20)});
  CHECK(notified == 1);
  CHECK_FALSE(exchange.has_evidence());
  const Evidence taken = exchange.take_evidence();
  REQUIRE(taken.stacks.size() == 2);
  CHECK(taken.stacks[1].rank == 3);
  CHECK(taken.stacks[1].missing == std::vector<std::string>{"node b has not answered"});
  CHECK(taken.sources.at(0).name == "flight recorder of node b");
  // A new attempt knows nothing of the previous one.
  exchange.begin(nodes, two_nodes());
  CHECK(exchange.far().empty());
}

TEST_CASE("each node shows its proof of peer access on request") {
  RecordingChannel nodes(true);
  RankExchange exchange;
  exchange.begin(nodes, two_nodes());
  exchange.shown({7, "b", 0s, wire::Subject::proof, "early"});
  std::vector<std::string> seen;
  exchange.on_proof = [&](const Shown& shown) { seen.push_back(shown.host + ": " + shown.text); };
  exchange.ask_for_evidence(wire::Subject::stacks);
  exchange.ask_for_proof();
  exchange.end_proof();
  CHECK(nodes.asked == std::vector{wire::Subject::stacks, wire::Subject::proof, wire::Subject::no_proof});
  exchange.shown({7, "b", 0s, wire::Subject::proof, "[]"});
  CHECK(seen == std::vector<std::string>{"b: []"});
  exchange.show_proof("[1]");
  CHECK(nodes.shown.back() == std::pair(wire::Subject::proof, std::string("[1]")));
}

TEST_CASE("the resource usage of other nodes' ranks does not count as a state change") {
  RecordingChannel nodes(true);
  RankExchange exchange;
  exchange.begin(nodes, two_nodes());
  exchange.ask_for_usage();
  CHECK(nodes.asked == std::vector{wire::Subject::usage});
  RankView used = rank(2, 1);
  used.usage.emplace().rss_bytes = 4096;
  const auto usage = [&](const std::string& node) {
    exchange.shown({7, node, 0s, wire::Subject::usage, show_usage(std::vector{used})});
  };
  usage("b");
  CHECK_FALSE(exchange.take_usage_news());  // the rank is not known yet
  const auto ranks = [&] {
    exchange.shown({7, "b", 0s, wire::Subject::ranks, show_ranks(std::vector{rank(2, 1)}, ShownCalls::digest)});
  };
  ranks();
  CHECK(exchange.take_news());
  usage("c");
  CHECK_FALSE(exchange.take_usage_news());  // it runs on another node
  usage("b");
  CHECK(exchange.take_usage_news());
  CHECK_FALSE(exchange.take_usage_news());
  CHECK_FALSE(exchange.take_news());
  CHECK(exchange.far().at(2).usage == used.usage);
  ranks();
  CHECK(exchange.far().at(2).usage == used.usage);  // a later view of the rank does not contain it
}
