// Tests ranks that show no collectives: heartbeats, and other signs of work.
#include <chrono>
#include <string>
#include <vector>

#include "launcher/run/watchdog/hang_detector.h"
#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("the rank with the fewest heartbeats is the one behind") {
  Job job(hang_plan(20s));
  job.heartbeat(0, 5).heartbeat(1, 4);
  job.computes(0);  // a rank that waits for a GPU does the same
  const auto began = job.now();
  job.passes(22s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.news.back().second.verdict.kind == VerdictKind::behind);
  CHECK(job.news.back().second.verdict.culprits == std::vector<int>{1});
  CHECK(job.last_news_after(began) == Approx(20).margin(1.2));
}

TEST_CASE("among ranks with equal heartbeats the inactive one is behind") {
  Job job(hang_plan(20s));
  job.heartbeat(0, 5).heartbeat(1, 5);
  job.ranks[0].process->waits_in = "hrtimer_nanosleep";
  job.ranks[1].process->waits_in = "futex_do_wait";
  job.passes(22s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.news.back().second.verdict.culprits == std::vector<int>{0});
  Job alike(hang_plan(20s));
  alike.heartbeat(0, 5).heartbeat(1, 5).passes(22s);
  REQUIRE(alike.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(alike.news.back().second.verdict.kind == VerdictKind::silent);
}

TEST_CASE("a rank without heartbeats ends the job only after a user's limit") {
  const auto news_of = [](const HangPlan& plan) {
    Job job(plan);
    job.heartbeat(0, 5).heartbeat(1, 5);
    for (int i = 0; i < 3600; ++i) job.heartbeat(0, 1).passes(1s);
    for (const auto& [when, news] : job.news) CHECK(news.verdict.culprits == std::vector<int>{1});
    return job.news;
  };
  const auto users = news_of(hang_plan(20s));
  REQUIRE(users.size() == 2);
  CHECK(users.back().second.kind == Kind::hung);
  CHECK(users.back().second.ends_job);
  const auto nobodys = news_of({});
  REQUIRE(nobodys.size() == 2);
  CHECK(nobodys.back().second.kind == Kind::warned);
  CHECK_FALSE(nobodys.back().second.ends_job);
}

TEST_CASE("heartbeats of all ranks are a sign of life") {
  Job job(hang_plan(20s));
  for (int i = 0; i < 100; ++i) job.heartbeat(0, 1).heartbeat(1, 1).passes(4s);
  CHECK(job.news.empty());
}

TEST_CASE("a rank whose last heartbeat came slightly later still counts as silent") {
  Job job(hang_plan(20s));
  job.heartbeat(0, 5).heartbeat(1, 4);
  job.passes(1s);
  job.heartbeat(1, 1);
  job.ranks[0].process->waits_in = "ep_poll";
  job.ranks[1].process->waits_in = "hrtimer_nanosleep";
  job.passes(22s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  for (const auto& [when, news] : job.news) CHECK(news.verdict.culprits == std::vector<int>{1});
}
