#include "launcher/see/view/job_history.h"

#include <random>

#include "launcher/see/view/history_limits.h"
#include "launcher/see/view/strip_text.h"
#include "support/catch.h"
#include "support/made_picture.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kBegin = 5'000'000'000;

Placement world_of(int size) {
  Placement placement;
  placement.attempt = 2;
  placement.world_size = size;
  return placement;
}

RankView training(int rank, std::uint64_t called, std::uint64_t finished, int size) {
  RankView view;
  view.rank = rank;
  view.page.is_written = true;
  view.page.phase = RankPhase::training;
  view.page.steps = called;
  view.page.waiting_threads = called > finished ? 1 : 0;
  view.page.groups.push_back({"world", rank, size, 0, called, called, finished});
  return view;
}

}  // namespace

TEST_CASE("a history shows what each rank did and for which rank the others waited") {
  JobHistory history;
  history.begin_attempt(world_of(2), "node0", kBegin);
  std::vector<RankView> ranks = {training(0, 4, 4, 2), training(1, 4, 4, 2)};
  ranks[1].node = "node1";
  history.add(made_picture(ranks, 1s, kBegin + 1'000'000'000));
  ranks[0] = training(0, 5, 4, 2);
  history.add(made_picture(ranks, 1s, kBegin + 2'000'000'000));
  history.add(unchanged_picture(1s, kBegin + 3'000'000'000));
  ranks[0].has_ended = ranks[1].has_ended = true;
  history.add(made_picture(ranks, 1s, kBegin + 4'000'000'000));
  const AttemptHistory result = history.end_attempt(kBegin + 4'000'000'000);

  CHECK(result.attempt == 2);
  CHECK(result.seconds == Approx(4));
  REQUIRE(result.ranks.size() == 2);
  CHECK(result.ranks[0].node == "node0");
  CHECK(result.ranks[1].node == "node1");
  CHECK(result.ranks[0].strip == "c*20 w*40 e*20");
  CHECK(result.ranks[1].strip == "c*60 e*20");
  CHECK(result.ranks[0].seconds[static_cast<std::size_t>(RankState::waiting)] == Approx(2));
  CHECK(result.ranks[0].waited_for.empty());
  CHECK(result.ranks[1].waited_for == "0*20 10*40 0*20");
  CHECK(result.ranks[1].waited_for_seconds == Approx(2));
  CHECK(result.ranks[0].steps == 5);
  CHECK(result.columns == 80);
  CHECK(result.column_seconds == Approx(0.05));
}

TEST_CASE("records give the times of steps, lost records and clock errors") {
  JobHistory history;
  history.begin_attempt(world_of(1), "a", kBegin);
  history.add(made_picture(std::vector{training(0, 1, 1, 1)}, 1s, kBegin + 1'000'000'000));
  RankRecords records;
  records.dropped = 7;
  records.clock_error = 2'000'000;
  for (std::uint32_t i = 0; i < 100; ++i) {
    records.records.push_back(
        {ddp::wire::RecordKind::step, 0, 0, 0, i, 1000, 1000 + (i == 99 ? 90'000'000U : 10'000'000U), 0});
  }
  history.add_records(records);
  records.rank = 99;  // no rank of this world
  history.add_records(records);
  const AttemptHistory result = history.end_attempt(kBegin + 1'000'000'000);
  REQUIRE(result.ranks.size() == 1);
  CHECK(*result.ranks[0].step_median == Approx(0.01).epsilon(0.03));
  CHECK(*result.ranks[0].step_p99 == Approx(0.01).epsilon(0.03));
  CHECK(result.dropped == 7);
  CHECK(result.clock_error == Approx(0.002));
}

TEST_CASE("a history counts the steps that a program without heartbeats reports") {
  JobHistory history;
  history.begin_attempt(world_of(1), "a", kBegin);
  std::vector<RankView> ranks = {training(0, 1, 1, 1)};
  ranks[0].page.steps = 0;
  ranks[0].page.progress_done = 12;
  history.add(made_picture(ranks, 1s, kBegin + 1'000'000'000));
  const AttemptHistory result = history.end_attempt(kBegin + 1'000'000'000);
  REQUIRE(result.ranks.size() == 1);
  CHECK(result.ranks[0].steps == 12);
}

TEST_CASE("unseen and nonexistent ranks are left out of the history") {
  JobHistory history;
  history.add(made_picture(std::vector{training(0, 1, 1, 1)}, 1s, kBegin));  // there is no attempt yet
  history.begin_attempt(world_of(3), "a", kBegin);
  history.add(
      made_picture(std::vector{training(1, 1, 1, 1), training(-1, 1, 1, 1), training(3, 1, 1, 1)}, 1s, kBegin + 1));
  const AttemptHistory result = history.end_attempt(kBegin + 1);
  REQUIRE(result.ranks.size() == 1);
  CHECK(result.ranks[0].rank == 1);
  CHECK(history.end_attempt(kBegin).ranks.empty());
}

TEST_CASE("the history of a thousand busy ranks stays within its limits") {
  constexpr int kRanks = 1000;
  std::mt19937 random(7);
  JobHistory history;
  history.begin_attempt(world_of(kRanks), "a", 0);
  std::vector<RankView> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(training(rank, 1, 1, kRanks));
  std::uint64_t now = 0;
  for (int i = 0; i < 1500; ++i) {
    for (RankView& rank : ranks) {
      rank.page.groups[0].called = 1 + random() % 2;
      rank.page.waiting_threads = static_cast<int>(random() % 2);
      rank.page.phase = random() % 3 != 0 ? RankPhase::training : RankPhase::evaluation;
    }
    history.add(made_picture(ranks, 50ms, now += 50'000'000));
  }
  const AttemptHistory result = history.end_attempt(now);
  REQUIRE(result.ranks.size() == kRanks);
  std::size_t bytes = 0;
  for (const RankHistory& rank : result.ranks) {
    bytes += rank.strip.size() + rank.waited_for.size();
    REQUIRE(read_strip(rank.strip, 5000).size() == static_cast<std::size_t>(result.columns));
  }
  CHECK(bytes <= ddp::limits::kHistoryText * 5 / 4);
  CHECK(result.columns >= 50);
  CHECK(result.columns * result.column_seconds >= 75);
}
