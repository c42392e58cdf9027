// Of ranks that show no collectives: heartbeats, and what work says.
#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "launcher/supervise/hang_detector.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("of ranks that send heartbeats the one with the fewest is behind") {
  Job job({20s, true, HangAction::kill});
  job.beat(0, 5).beat(1, 4);
  job.busy_rank = 0;  // as one that waits for a GPU
  const auto began = job.now();
  job.passes(22s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.news.back().second.verdict.kind == VerdictKind::behind);
  CHECK(job.news.back().second.verdict.culprits == std::vector<int>{1});
  CHECK(job.last_news_after(began) == Approx(20).margin(1.2));
}

TEST_CASE("of ranks with as many heartbeats the odd one is behind, if there is one") {
  Job job({20s, true, HangAction::kill});
  job.beat(0, 5).beat(1, 5);
  job.ranks[0].process->waits_in = "hrtimer_nanosleep";
  job.ranks[1].process->waits_in = "futex_do_wait";
  job.passes(22s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.news.back().second.verdict.culprits == std::vector<int>{0});
  Job alike({20s, true, HangAction::kill});
  alike.beat(0, 5).beat(1, 5).passes(22s);
  REQUIRE(alike.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(alike.news.back().second.verdict.kind == VerdictKind::silent);
}

TEST_CASE("a rank without heartbeats is behind while others go on, and only a time that was asked for ends the job") {
  for (const bool is_users : {true, false}) {
    Job job({20s, is_users, HangAction::kill});
    job.beat(0, 5).beat(1, 5);
    for (int i = 0; i < 30; ++i) {
      job.beat(0, 1);
      job.output();
      job.passes(1s);
    }
    REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
    CHECK(job.news.back().second.verdict.culprits == std::vector<int>{1});
    CHECK(job.news.back().second.ends_job == is_users);
  }
}

TEST_CASE("heartbeats of all are life") {
  Job job({20s, true, HangAction::kill});
  for (int i = 0; i < 100; ++i) job.beat(0, 1).beat(1, 1).passes(4s);
  CHECK(job.news.empty());
}

TEST_CASE("work that taking stacks takes is no sign of life") {
  Job job({20s, true, HangAction::kill});
  job.warm();
  const auto began = job.now();
  job.passes(10s);
  job.looked_into();
  job.passes(15s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.last_news_after(began) == Approx(20).margin(1.2));
}

TEST_CASE("a rank that was silent a little later than the others does not go on") {
  Job job({20s, true, HangAction::kill});
  job.beat(0, 5).beat(1, 4);
  job.passes(1s);
  job.beat(1, 1);
  job.ranks[0].process->waits_in = "ep_poll";
  job.ranks[1].process->waits_in = "hrtimer_nanosleep";
  job.passes(22s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  for (const auto& [when, news] : job.news) CHECK(news.verdict.culprits == std::vector<int>{1});
}
