// Tests jobs in which no rank waits in a collective.
#include <vector>

#include "launcher/watchdog/hang_detector.h"
#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("where nobody waits and nobody works only a time that somebody asked for ends the job") {
  Job users(hang_plan(60s));
  users.warm();
  const auto began = users.now();
  users.passes(75s);
  REQUIRE(users.kinds() == std::vector{Kind::stalled, Kind::warned, Kind::hung});
  CHECK(users.news.back().second.verdict.kind == VerdictKind::silent);
  CHECK(users.news.back().second.ends_job);
  CHECK(users.last_news_after(began) == Approx(63).margin(6));
  Job nobodys;
  nobodys.warm().passes(45min);
  CHECK(nobodys.kinds() == std::vector{Kind::stalled, Kind::warned});
  CHECK_FALSE(nobodys.news.back().second.ends_job);
}

TEST_CASE("ranks that wait for others to come to a new group wait in vain if no rank does anything") {
  Job job;
  job.warm();
  job.ranks[0].page.waiting_threads = 1;
  const auto began = job.now();
  job.passes(32min);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::warned, Kind::hung});
  const HangNews& hang = job.news.back().second;
  CHECK(hang.verdict.kind == VerdictKind::silent);
  CHECK(hang.verdict.waiting == std::vector<int>{0});
  CHECK(hang.judgement.hang_class == HangClass::unknown);
  CHECK(job.last_news_after(began) == Approx(1806).margin(10));
  Job looks_again;
  looks_again.warm().computes(0);  // work of the rank that waits is no sign of life
  looks_again.ranks[0].page.waiting_threads = 1;
  looks_again.passes(32min);
  CHECK(looks_again.last(Kind::hung));
  Job all_wait;
  all_wait.warm().computes(0);
  for (RankView& view : all_wait.ranks) view.page.waiting_threads = 1;
  all_wait.passes(32min);
  CHECK(all_wait.last(Kind::hung));
  Job works;
  works.warm().computes(1);
  works.ranks[0].page.waiting_threads = 1;
  works.passes(45min);
  CHECK_FALSE(works.last(Kind::hung));
}

TEST_CASE("where nobody waits output and work are signs of life") {
  Job printing(hang_plan(20s));
  printing.does(0, [](ActivitySample& sample) { ++sample.output_bytes; }).passes(10min);
  CHECK(printing.news.empty());
  Job working(hang_plan(20s));
  working.computes(1).passes(10min);
  CHECK(working.news.empty());
  // The work has ended, so the rank is silent.
  working.does(1, nullptr).passes(40s);
  CHECK(working.last(Kind::hung));
}
