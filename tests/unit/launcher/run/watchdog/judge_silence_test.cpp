// Tests jobs in which no rank waits in a known collective.
#include <chrono>
#include <tuple>
#include <vector>

#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("an idle job in which no rank waits ends only after a user's limit") {
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

TEST_CASE("ranks that wait for others in a new group hang if no rank is active") {
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
  // Only work of a rank that does not wait is a sign of life.
  for (const auto& [all_wait, worker, hangs] : {std::tuple{false, 0, true}, {true, 0, true}, {false, 1, false}}) {
    Job works;
    works.warm().computes(worker);
    for (RankView& view : works.ranks) view.page.waiting_threads = all_wait || view.rank == 0 ? 1 : 0;
    works.passes(45min);
    CHECK((works.last(Kind::hung) != nullptr) == hangs);
  }
  Job limited(hang_plan(60s));
  limited.warm().computes(1).ranks[0].page.waiting_threads = 1;
  limited.passes(80s);
  CHECK(limited.last(Kind::hung));
}

TEST_CASE("a rank that joins a new group late is not given up at that moment") {
  const auto waiting_for_rank_one = [](auto then) {
    Job job;
    job.warm().computes(1);
    job.ranks[0].page.waiting_threads = 1;
    job.passes(45min);
    then(job);
    job.passes(10min);
    CHECK_FALSE(job.last(Kind::hung));
    job.passes(25min);
    CHECK(job.last(Kind::hung));
  };
  waiting_for_rank_one([](Job& job) {  // rank 0 has seen rank 1 come, and does not wait any more
    job.does(1, nullptr);
    job.ranks[0].page.waiting_threads = 0;
    job.ranks[1].page.waiting_threads = 1;
  });
  waiting_for_rank_one([](Job& job) {  // rank 0 has not seen it yet
    job.does(1, nullptr);
    job.ranks[1].page.waiting_threads = 1;
  });
}

TEST_CASE("the exit of an awaited rank counts as activity") {
  Job job(hang_plan(60s));
  job.warm();
  job.ranks[0].page.waiting_threads = 1;
  for (int i = 0; i < 30; ++i) {
    ++job.ranks[1].page.steps;
    job.passes(10s);
  }
  job.passes(45s);
  job.ranks[1].has_ended = true;
  job.passes(50s);
  CHECK_FALSE(job.last(Kind::hung));
  job.passes(20s);
  CHECK(job.last(Kind::hung));
}

TEST_CASE("a program's continuation is not a wait although the rank's thread waits for it") {
  for (const bool all_called : {false, true}) {
    CAPTURE(all_called);
    Job job;
    job.warm().computes(0);
    if (all_called) job.call(0).call(1);
    for (RankView& view : job.ranks) view.page.calling_threads = view.page.waiting_threads = 1;
    job.ranks[0].page.continuations = 1;
    job.passes(45min);
    CHECK_FALSE(job.last(Kind::hung));
    job.does(0, nullptr).ranks[0].page.continuations = 0;
    job.passes(25min);
    CHECK_FALSE(job.last(Kind::hung));
    job.passes(10min);
    CHECK(job.last(Kind::hung));
  }
}

TEST_CASE("a sleeping continuation is not a hang if no other rank waits") {
  Job job;
  job.warm();
  job.ranks[1].has_ended = true;
  PageView& page = job.ranks[0].page;
  page.calling_threads = page.waiting_threads = page.continuations = 1;
  job.passes(45min);
  CHECK_FALSE(job.last(Kind::hung));
  page.continuations = 0;
  job.passes(35min);
  CHECK(job.last(Kind::hung));
}

TEST_CASE("a rank with one waiting thread may be active in another one") {
  Job job;
  job.warm().computes(0);
  for (RankView& view : job.ranks) view.page.waiting_threads = 1;
  job.ranks[0].page.calling_threads = 2;
  job.passes(45min);
  CHECK_FALSE(job.last(Kind::hung));
  job.does(0, nullptr).passes(35min);
  CHECK(job.last(Kind::hung));
}

TEST_CASE("ranks that repeatedly wait for others in vain hang as well") {
  Job job;
  job.warm();
  int samples = 0;
  job.before_sample = [&](Job& now) { now.ranks[0].page.waiting_threads = ++samples % 39 < 36 ? 1 : 0; };
  job.passes(40min);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::warned, Kind::hung});
}

TEST_CASE("output and work are signs of life in a job where no rank waits") {
  Job printing(hang_plan(20s));
  printing.does(0, [](ActivitySample& sample) { ++sample.output_bytes; }).passes(10min);
  CHECK(printing.news.empty());
  Job working(hang_plan(20s));
  working.computes(1).passes(10min);
  CHECK(working.news.empty());
  Job ends = working;
  // The work has ended, so the rank is silent.
  working.does(1, nullptr).passes(40s);
  CHECK(working.last(Kind::hung));
  ends.ranks[1].has_ended = true;
  ends.passes(15s);
  CHECK_FALSE(ends.last(Kind::hung));
  ends.passes(10s);
  CHECK(ends.last(Kind::hung));
}

TEST_CASE("sleeping programs without the runtime are left alone unless the user set a limit") {
  for (const HangPlan& plan : {HangPlan{}, hang_plan(60s)}) {
    Job job(plan);
    for (RankView& view : job.ranks) view.page = {};
    job.passes(45min);
    CHECK(job.news.empty() == !plan.timeout);
  }
}

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
