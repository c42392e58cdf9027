#include "launcher/supervise/hang_detector.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
namespace limits = ddp::limits;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("a rank that does nothing while another waits ends the job at the floor") {
  Job job;
  job.warm().call(0);
  const auto began = job.now();
  job.passes(40s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.last_news_after(began) == Approx(30).margin(1.1));
  const HangNews& hang = job.news.back().second;
  CHECK(hang.ends_job);
  CHECK(hang.verdict.kind == VerdictKind::not_called);
  CHECK(hang.verdict.culprits == std::vector<int>{1});
  CHECK(hang.limit == limits::kHangFloor);
  CHECK(hang.ranks.size() == 2);
  job.passes(100s);
  CHECK(job.news.size() == 2);  // once is enough
}

TEST_CASE("a rank that works has all the time of --hang-timeout") {
  const auto limit_where = [](const auto& change) {
    Job job;
    job.warm().call(0);
    change(job);
    const auto began = job.now();
    job.passes(700s);
    REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
    return job.last_news_after(began);
  };
  CHECK(limit_where([](Job& job) { job.busy_rank = 1; }) == Approx(600).margin(1.1));
  CHECK(limit_where([](Job& job) { job.waking_rank = 1; }) == Approx(600).margin(1.1));
  CHECK(limit_where([](Job& job) { job.ranks[1].process->state = 'D'; }) == Approx(600).margin(1.1));
  CHECK(limit_where([](Job& job) { job.ranks[1].board.phase = "checkpoint"; }) == Approx(600).margin(1.1));
  // The one that waits may do what it likes.
  CHECK(limit_where([](Job& job) { job.busy_rank = 0; }) == Approx(30).margin(1.1));
}

TEST_CASE("pauses are learnt and one ten times as long is no hang") {
  Job job;
  job.does_steps(12, 5s).call(0);
  const auto began = job.now();
  job.passes(50s);
  CHECK(job.kinds() == std::vector{Kind::stalled});
  job.call(1).look(limits::kHangLook);
  job.finish(0).finish(1).look(limits::kHangLook);
  job.passes(2s);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::goes_on});
  // Now the longest pause is 50 s: a thousand, of which there are but 600.
  const auto again = job.now();
  job.call(0).passes(700s);
  CHECK(job.last_news_after(again) == Approx(600).margin(1.1));
  CHECK(began < again);
}

TEST_CASE("before the first steps a program may be compiled for twenty minutes") {
  Job job({600s, false, HangAction::kill});
  job.call(0).passes(20min);
  CHECK(job.kinds() == std::vector{Kind::stalled});
  job.call(1).finish(0).finish(1).passes(2s);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::goes_on});
  // All have called, and it does not go on: nobody compiles.
  Job stuck({600s, false, HangAction::kill});
  stuck.call(0).call(1);
  const auto began = stuck.now();
  stuck.passes(20min);
  REQUIRE(stuck.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(stuck.news.back().second.verdict.kind == VerdictKind::transport);
  CHECK(stuck.last_news_after(began) == Approx(600).margin(1.1));
}

TEST_CASE("a gpu that computes before a collective has all of the time that there is") {
  for (const bool computes : {true, false}) {
    Job job({600s, false, HangAction::kill});
    job.warm().call(0).call(1);
    for (RankView& view : job.ranks) {
      GroupView& group = view.board.groups[0];
      group.gpu_queued = group.called;
      group.gpu_started = computes && view.rank == 1 ? group.finished : group.called;
      group.gpu_finished = group.finished;
    }
    const auto began = job.now();
    job.passes(20min);
    REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
    CHECK(job.news.back().second.verdict.kind == (computes ? VerdictKind::gpu_behind : VerdictKind::transport));
    CHECK(job.last_news_after(began) == Approx(computes ? 600 : 30).margin(1.1));
  }
}

TEST_CASE("ranks of other nodes have all of the time that there is") {
  Job job({600s, false, HangAction::kill});
  for (RankView& view : job.ranks) view.board.groups[0].size = 4;
  job.warm().call(0).call(1);
  const auto began = job.now();
  job.passes(20min);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.last_news_after(began) == Approx(600).margin(1.1));
}

TEST_CASE("time in which nobody looked does not count") {
  Job job;
  job.warm().call(0).passes(3s);
  job.look(8h);
  job.passes(3s);
  CHECK(job.news.empty());
}

TEST_CASE("a stopped rank is told within a second and stops the clocks") {
  Job job;
  job.warm().call(0).passes(2s);
  job.ranks[1].process->state = 'T';
  const auto began = job.now();
  job.passes(1h);
  REQUIRE(job.kinds() == std::vector{Kind::stopped});
  CHECK(job.last_news_after(began) <= 1.1);
  CHECK(job.news.back().second.verdict.culprits == std::vector<int>{1});
  job.ranks[1].process->state = 'S';
  job.passes(2s);
  CHECK(job.kinds() == std::vector{Kind::stopped, Kind::resumed});
  job.passes(35s);
  CHECK(job.kinds() == std::vector{Kind::stopped, Kind::resumed, Kind::stalled, Kind::hung});
}

TEST_CASE("a tracer that stops a rank again and again does not stop the clocks") {
  Job job;
  job.warm().call(0);
  job.ranks[1].process->state = 't';
  job.waking_rank = 1;
  job.passes(10s);
  CHECK(job.news.empty());
  job.waking_rank = -1;  // now a debugger has it
  job.passes(5s);
  CHECK(job.kinds() == std::vector{Kind::stopped});
}

TEST_CASE("programs without the runtime that sleep are left alone unless somebody asked") {
  for (const bool is_users : {true, false}) {
    Job job({60s, is_users, HangAction::kill});
    for (RankView& view : job.ranks) view.board = {};
    job.passes(100s);
    CHECK(job.news.empty() == !is_users);
  }
}

TEST_CASE("a rank that has ended is not waited for long") {
  Job job;
  job.warm().call(0);
  job.ranks[1].has_ended = true;
  const auto began = job.now();
  job.passes(10s);
  REQUIRE(job.kinds() == std::vector{Kind::hung});
  CHECK(job.news.back().second.verdict.kind == VerdictKind::ended);
  CHECK(job.last_news_after(began) == Approx(5).margin(1.1));
}

TEST_CASE("what can never go on is not waited for") {
  Job job;
  job.warm();
  for (int rank = 0; rank < 2; ++rank) {
    job.call(rank);
    const std::uint64_t called = job.ranks[0].board.groups[0].called;
    job.ranks[static_cast<std::size_t>(rank)].calls = {
        {{called, 7U + static_cast<std::uint64_t>(rank), 1, "barrier", "", ""}}};
  }
  const auto began = job.now();
  job.passes(5s);
  REQUIRE(job.kinds() == std::vector{Kind::hung});
  CHECK(job.last_news_after(began) <= 2.1);
}

TEST_CASE("a worker may ask for more time") {
  Job job;
  job.warm().call(0);
  job.ranks[1].board.more_time_until = static_cast<std::uint64_t>((job.now() + 900s).count());
  const auto began = job.now();
  job.passes(890s);
  CHECK(job.kinds() == std::vector{Kind::stalled});
  job.passes(20s);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.last_news_after(began) == Approx(900).margin(2));
}

TEST_CASE("who only warns says it again after as long a time") {
  Job job({600s, true, HangAction::warn});
  job.warm().call(0).passes(65s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung, Kind::hung});
  CHECK_FALSE(job.news[1].second.ends_job);
  CHECK_FALSE(job.news[2].second.ends_job);
}

TEST_CASE("where nobody waits and nobody works only a time that somebody asked for ends the job") {
  for (const bool is_users : {true, false}) {
    Job job({60s, is_users, HangAction::kill});
    job.warm();
    const auto began = job.now();
    job.passes(62s);
    REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
    CHECK(job.news.back().second.verdict.kind == VerdictKind::silent);
    CHECK(job.news.back().second.ends_job == is_users);
    CHECK(job.last_news_after(began) == Approx(60).margin(1.1));
  }
}

TEST_CASE("output and work are signs of life") {
  Job printing({20s, true, HangAction::kill});
  for (int i = 0; i < 20; ++i) {
    printing.passes(4s);
    printing.output();
  }
  CHECK(printing.news.empty());
  Job working({20s, true, HangAction::kill});
  working.busy_rank = 1;
  working.passes(100s);
  CHECK(working.news.empty());
}

TEST_CASE("without a timeout nothing is looked for") {
  Job job({0s, true, HangAction::kill});
  job.warm().call(0);
  job.ranks[1].process->state = 'T';
  job.passes(1h);
  CHECK(job.news.empty());
}

TEST_CASE("an old group that nobody uses is no reason for deep looks") {
  HangDetector detector({600s, true, HangAction::kill});
  Job job;
  std::vector<RankView> ranks = job.ranks;
  int deep = 0;
  for (int i = 0; i < 2000; ++i) {
    // A second group goes on, the first one rests.
    for (RankView& view : ranks) {
      if (view.board.groups.size() == 1) view.board.groups.push_back({"other", view.rank, 2, 1, 0, 0, 0, 0, 0});
      ++view.board.groups[1].called;
      ++view.board.groups[1].finished;
    }
    deep += detector.depth() == LookDepth::all ? 1 : 0;
    detector.look(ranks, limits::kHangLook, 0);
  }
  CHECK(deep == 0);
}

TEST_CASE("half of the limit is told once a stall, where somebody wants stacks") {
  Job job({600s, true, HangAction::kill});
  job.warm().call(0);
  const auto began = job.now();
  job.passes(35s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  REQUIRE(job.halves.size() == 1);
  CHECK(std::chrono::duration<double>(job.halves[0] - began).count() == Approx(15).margin(1.1));

  Job again({600s, true, HangAction::dump});
  again.warm().call(0).passes(20s).call(1).finish(0).finish(1).passes(2s).call(0).passes(220s);
  CHECK(again.halves.size() == 2);

  Job warns({600s, true, HangAction::warn});
  warns.warm().call(0).passes(35s);
  CHECK(warns.halves.empty());
}

TEST_CASE("who asks is told what all are at, whatever the timeout") {
  Job job({0s, false, HangAction::kill});
  const HangDetector detector({0s, false, HangAction::kill});
  HangNews news = detector.describe(job.ranks);
  CHECK(news.kind == Kind::asked);
  CHECK(news.verdict.kind == VerdictKind::silent);
  CHECK(news.ranks.size() == 2);
  CHECK_FALSE(news.ranks[0].cpu_share);
  CHECK_FALSE(news.ends_job);
  job.call(0);
  news = detector.describe(job.ranks);
  CHECK(news.verdict.kind == VerdictKind::not_called);
  CHECK(news.verdict.culprits == std::vector<int>{1});
}

TEST_CASE("a rank may ask for more time than there is") {
  Job job({60s, true, HangAction::kill});
  job.warm().call(0);
  job.ranks[1].board.more_time_until = ~std::uint64_t{0};
  job.passes(10min);
  CHECK(job.kinds() == std::vector<Kind>{});
}

TEST_CASE("a section without collectives may be as silent as long as the timeout") {
  Job job({60s, true, HangAction::kill});
  job.warm();
  for (RankView& view : job.ranks) view.board.phase = "checkpoint";
  const auto began = job.now();
  job.passes(70s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::hung});
  CHECK(job.last_news_after(began) == Approx(60).margin(1.2));
}

TEST_CASE("who sees a part of the ranks says nothing before somebody who sees all could have") {
  Job job({600s, true, HangAction::kill}, /*others_judge=*/true);
  job.warm().call(0);
  const auto began = job.now();
  job.passes(60s);
  REQUIRE(job.kinds() == std::vector{Kind::hung});
  CHECK(job.last_news_after(began) == Approx(35).margin(1.1));
}
