#include "launcher/run/ranks/record_collector.h"

#include <chrono>
#include <map>
#include <vector>

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/recording_channel.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;
using wire::RecordKind;

namespace {

using Clock = RecordCollector::Clock;

class Rings : public RankProbe {
 public:
  RankRecords take_records(int local_rank) override {
    RankRecords records;
    records.rank = first_rank + local_rank;
    records.groups.emplace_back();
    records.names.emplace_back();
    records.records = std::exchange(rings[local_rank], {});
    return records;
  }
  void discard_records(int local_rank) override { discarded += std::exchange(rings[local_rank], {}).size(); }

  void step(int local_rank, std::uint64_t begin) {
    rings[local_rank].push_back({RecordKind::step, 0, 0, 0, 1, begin, begin + 1000, 0});
  }

  int first_rank = 0;
  std::map<int, std::vector<Record>> rings;
  std::size_t discarded = 0;
};

class Sink : public RankSink {
 public:
  void add(const Picture&) override {}
  void add_records(const RankRecords& records) override { all.push_back(records); }
  bool wants_processes() const override { return false; }
  bool wants_records() const override { return wants; }

  bool wants = true;
  std::vector<RankRecords> all;
};

Placement placement(int nodes, int first_rank) {
  Placement place;
  place.node_count = nodes;
  place.first_rank = first_rank;
  place.world_size = 2 * nodes;
  return place;
}

// Is one node with two ranks.
struct Node {
  Node(int nodes, bool is_first, bool has_sink) : channel(is_first), place(placement(nodes, is_first ? 0 : 2)) {
    rings.first_rank = place.first_rank;
    exchange.begin(channel, place);
    collector.emplace(exchange, rings, has_sink ? &sink : nullptr, place);
    collector->started(0);
    collector->started(1);
  }

  RecordingChannel channel;
  Placement place;
  Rings rings;
  Sink sink;
  RankExchange exchange;
  std::optional<RecordCollector> collector;
};

std::uint64_t monotonic() {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}

}  // namespace

TEST_CASE("records of this node go to the views") {
  Node node(1, true, true);
  node.rings.step(0, 100);
  node.rings.step(1, 200);
  node.rings.step(1, 300);
  node.collector->poll(Clock::now());
  REQUIRE(node.sink.all.size() == 2);
  CHECK(node.sink.all[1].rank == 1);
  CHECK(node.sink.all[1].records.size() == 2);
  node.collector->poll(Clock::now());
  CHECK(node.sink.all.size() == 2);
  node.rings.step(0, 400);
  node.collector->finish();
  CHECK(node.sink.all.size() == 3);
  CHECK(node.channel.shown.empty());
  CHECK(node.channel.asked.size() == 0);
}

TEST_CASE("unneeded records are removed without counting as dropped") {
  Node node(1, true, true);
  node.sink.wants = false;
  node.rings.step(0, 100);
  node.collector->poll(Clock::now());
  CHECK(node.rings.discarded == 1);
  CHECK(node.sink.all.empty());
}

TEST_CASE("the coordinator asks for records twice per second if a view wants them") {
  Node node(2, true, true);
  const auto now = Clock::now();
  node.collector->poll(now);
  CHECK(node.channel.asked.size() == 1);
  node.collector->poll(now + 400ms);
  CHECK(node.channel.asked.size() == 1);
  node.collector->poll(now + 600ms);
  CHECK(node.channel.asked.size() == 2);
  node.sink.wants = false;
  node.collector->poll(now + 2s);
  CHECK(node.channel.asked.size() == 2);
}

TEST_CASE("a node that is asked sends what its ranks have recorded since") {
  Node node(2, false, false);
  node.rings.step(0, 100);
  node.collector->poll(Clock::now());
  node.rings.step(0, 200);
  node.exchange.asked(wire::Subject::records, 12);
  REQUIRE(node.channel.shown.size() == 1);
  ShownRecords shown = read_records(node.channel.shown[0].second);
  CHECK(shown.asked_at == 12);
  CHECK(shown.received_at <= shown.answered_at);
  CHECK(shown.received_at > 0);
  REQUIRE(shown.ranks.size() == 1);
  CHECK(shown.ranks[0].rank == 2);
  CHECK(shown.ranks[0].records.size() == 2);
  node.exchange.asked(wire::Subject::records, 13);
  CHECK(read_records(node.channel.shown.at(1).second).ranks.empty());
  node.rings.step(1, 300);
  node.collector->finish();
  shown = read_records(node.channel.shown.at(2).second);
  CHECK(shown.is_last);
  CHECK(shown.asked_at == 0);
  CHECK(shown.ranks.size() == 1);
}

TEST_CASE("a node that is not asked keeps its records for a while and then removes them") {
  Node node(2, false, false);
  node.rings.step(0, 100);
  node.collector->poll(Clock::now());
  CHECK(node.rings.discarded == 0);
  node.rings.step(0, 200);
  node.collector->poll(Clock::now() + limits::kRecordKeep);
  CHECK(node.rings.discarded == 1);
  node.collector->finish();
  CHECK(node.channel.shown.empty());
}

TEST_CASE("a node that is asked too rarely counts the lost records") {
  Node node(2, false, false);
  for (std::size_t i = 0; i < limits::kUnsentRecords + 10; ++i) node.rings.step(0, 100 + i);
  node.collector->poll(Clock::now());
  node.exchange.asked(wire::Subject::records, 12);
  std::size_t count = 0;
  for (const auto& [what, text] : node.channel.shown) {
    for (const RankRecords& rank : read_records(text).ranks) {
      if (count == 0) CHECK(rank.records.front().begin == 110);
      CHECK(rank.dropped == 10);
      count += rank.records.size();
    }
  }
  CHECK(count == limits::kUnsentRecords);
}

TEST_CASE("records of another node are converted to the coordinator's clock") {
  Node node(2, true, true);
  const std::int64_t ahead = 7'000'000'000;
  const std::uint64_t asked = monotonic();
  ShownRecords shown{asked, asked + 1'000 + ahead, asked + 2'000 + ahead, false, {}};
  RankRecords rank;
  rank.rank = 3;
  rank.groups.emplace_back();
  rank.names.emplace_back();
  rank.records.push_back({RecordKind::step, 0, 0, 0, 1, asked + ahead - 5000, asked + ahead, 0});
  shown.ranks = {rank, rank, rank};
  shown.ranks[1].rank = 4;  // not in the job
  shown.ranks[2].rank = -1;
  node.exchange.shown({7, "b", 0s, wire::Subject::records, show_records(shown)});
  REQUIRE(node.sink.all.size() == 1);
  const RankRecords& seen = node.sink.all[0];
  CHECK(seen.node == "b");
  const std::uint64_t passed = monotonic() - asked;
  CHECK(seen.clock_error <= passed);
  CHECK(seen.records[0].end <= asked + passed);
  CHECK(seen.records[0].end + passed >= asked);
  CHECK(seen.records[0].end - seen.records[0].begin == 5000);
}

TEST_CASE("the clock of a node is known from its first message") {
  Node node(2, true, true);
  ShownRecords shown;
  shown.is_last = true;
  shown.ranks.emplace_back();
  shown.ranks[0].rank = 2;
  shown.ranks[0].groups.emplace_back();
  shown.ranks[0].names.emplace_back();
  shown.ranks[0].records.push_back({RecordKind::step, 0, 0, 0, 1, 5'000'000'000, 6'000'000'000, 0});
  node.exchange.shown({7, "b", 2s, wire::Subject::records, show_records(shown)});
  REQUIRE(node.sink.all.size() == 1);
  CHECK(node.sink.all[0].records[0].begin == 3'000'000'000);
  CHECK(std::chrono::nanoseconds(node.sink.all[0].clock_error) == limits::kUnknownClockError);
}

TEST_CASE("a message to the coordinator that holds no records is ignored") {
  Node node(2, true, true);
  node.exchange.shown({7, "b", 0s, wire::Subject::records, "garbage"});
  CHECK(node.sink.all.empty());
}

TEST_CASE("the last records of nodes that have sent some are awaited") {
  Node node(3, true, true);
  CHECK_FALSE(node.collector->awaits_last());
  const auto shows = [&](std::uint64_t from, bool is_last) {
    node.exchange.shown({from, "b", 0s, wire::Subject::records, show_records({1, 2, 3, is_last, {}})});
  };
  shows(7, false);
  shows(8, false);
  CHECK(node.collector->awaits_last());
  shows(7, true);
  CHECK(node.collector->awaits_last());
  node.sink.wants = false;
  CHECK_FALSE(node.collector->awaits_last());
  node.sink.wants = true;
  shows(8, true);
  CHECK_FALSE(node.collector->awaits_last());
}
