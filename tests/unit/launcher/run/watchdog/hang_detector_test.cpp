#include "launcher/run/watchdog/hang_detector.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
namespace limits = ddp::limits;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("a rank that does nothing while another waits ends the job after half an hour") {
  Job job;
  job.warm().call(0);
  const auto began = job.now();
  job.passes(32min);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::warned, Kind::hung});
  CHECK(std::chrono::duration<double>(job.news[0].first - began).count() == Approx(5).margin(1.1));
  CHECK(std::chrono::duration<double>(job.news[1].first - began).count() == Approx(63).margin(5));
  CHECK(job.last_news_after(began) == Approx(1803).margin(6));
  const HangNews& hang = job.news.back().second;
  CHECK(hang.ends_job);
  CHECK(hang.judgement.hang_class == HangClass::unknown);
  CHECK(hang.verdict.kind == VerdictKind::not_called);
  CHECK(hang.verdict.culprits == std::vector<int>{1});
  CHECK(hang.ranks.size() == 2);
  job.passes(100s);
  CHECK(job.news.size() == 3);  // each report comes only once
}

TEST_CASE("a rank that shows any sign of life is reported but never given up") {
  const auto never_ends = [](const std::function<void(Job & job)>& live) {
    Job job;
    job.warm().call(0);
    live(job);
    job.passes(45min);
    REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::warned});
    // The report stays a note until it has lasted for long.
    return std::chrono::duration<double>(job.news[1].first - job.news[0].first).count() > 500;
  };
  CHECK(never_ends([](Job& job) { job.computes(1); }));
  CHECK(never_ends([](Job& job) { job.does(1, [](ActivitySample& sample) { ++sample.output_bytes; }); }));
  CHECK(never_ends([](Job& job) { job.does(1, [](auto& sample) { sample.connections[0].bytes += 160'000; }); }));
  CHECK(never_ends([](Job& job) { job.does(1, [](auto& sample) { sample.processes[0].is_runnable = true; }); }));
}

TEST_CASE("a mismatch is reported once the calls are known") {
  Job job;
  job.warm().call(0).call(1);
  job.ranks[0].calls = {{{11, 1, 0, "all_reduce sum f32[8]", "", ""}}};
  job.ranks[1].calls = {{{11, 2, 0, "", "", ""}}};  // a node shows calls like this if it was not asked
  job.passes(60s);
  CHECK(job.news.empty());
  job.ranks[1].calls[0][0].what = "all_reduce sum f32[4]";
  job.passes(2s);
  REQUIRE(job.kinds() == std::vector{Kind::hung});
  CHECK(job.last(Kind::hung)->verdict.kind == VerdictKind::different_arguments);
}

TEST_CASE("time before a rank is awaited does not count") {
  Job works;
  works.warm().call(0).computes(1).passes(40min);
  works.call(1).finish(1).does(1, nullptr).passes(20min);  // rank 1 has done its part before the others
  CHECK_FALSE(works.last(Kind::hung));
  works.passes(11min);
  CHECK(works.last(Kind::hung));
  Job sleeps;
  sleeps.warm().passes(40min);
  const std::size_t reported = sleeps.news.size();
  sleeps.call(0).passes(30s);
  CHECK_FALSE(sleeps.last(Kind::hung));
  for (std::size_t i = reported; i < sleeps.news.size(); ++i) CHECK(sleeps.kinds()[i] != Kind::warned);
}

TEST_CASE("the activity of the waiting rank is not a sign of life") {
  Job job;
  job.warm().call(0).computes(0).passes(32min);
  REQUIRE(job.last(Kind::hung));
  CHECK(job.last(Kind::hung)->ends_job);
}

TEST_CASE("heartbeats and phases of the awaited rank are signs of life and progress", "[slow]") {
  for (const HangPlan& plan : {HangPlan{}, hang_plan(60s)}) {
    Job job(plan);
    job.warm().call(0);
    for (int i = 0; i < 1000; ++i) {
      ++job.ranks[1].page.steps;
      job.passes(10s);
    }
    CHECK_FALSE(job.last(Kind::hung));
    job.passes(32min);
    CHECK(job.last(Kind::hung));
  }
}

TEST_CASE("a user's limit also applies to a rank that is active") {
  for (const bool computes : {true, false}) {
    Job job(hang_plan(600s));
    job.warm().call(0);
    if (computes) job.computes(1);
    const auto began = job.now();
    job.passes(700s);
    REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::warned, Kind::hung});
    CHECK(job.last_news_after(began) == Approx(600).margin(1.1));
    CHECK(job.news.back().second.judgement.hang_class == HangClass::users_limit);
  }
}

TEST_CASE("pauses are learnt, and a longer pause is reported later") {
  Job job;
  job.does_steps(12, 5s).call(0);
  const auto began = job.now();
  job.passes(18s);
  CHECK(job.news.empty());
  job.passes(5s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled});
  CHECK(job.last_news_after(began) == Approx(20).margin(1.1));
  job.call(1).sample(limits::kHangSampleInterval);
  job.finish(0).finish(1).sample(limits::kHangSampleInterval);
  job.passes(2s);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::goes_on});
}

TEST_CASE("a learnt limit ends the job only on request") {
  Job job({std::nullopt, HangLimit::learnt, HangAction::kill});
  job.warm().call(0);
  const auto began = job.now();
  job.passes(60s);
  REQUIRE(job.last(Kind::hung));
  CHECK(job.last_news_after(began) == Approx(33).margin(6));
  Job works({std::nullopt, HangLimit::learnt, HangAction::kill});
  works.warm().call(0).computes(1).passes(1h);
  CHECK_FALSE(works.last(Kind::hung));
}

TEST_CASE("a program may compile for a long time before its first steps") {
  Job job;
  job.call(0).computes(1).passes(45min);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::warned});
  job.call(1).finish(0).finish(1).passes(2s);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::warned, Kind::goes_on});
}

TEST_CASE("a collective that moves data is not a hang, and one that only spins is") {
  Job slow;
  slow.warm().call(0).call(1).does(0, [](auto& sample) { sample.connections[0].bytes += 1'000'000; });
  slow.passes(45min);
  CHECK(slow.kinds() == std::vector{Kind::stalled, Kind::warned});
  Job spins;
  spins.warm().call(0).call(1).computes(0).computes(1).passes(32min);
  REQUIRE(spins.last(Kind::hung));
  CHECK(spins.last(Kind::hung)->verdict.kind == VerdictKind::transport);
  Job blind;
  blind.warm().call(0).call(1).does(0, [](auto& sample) { sample.is_complete = false; });
  blind.passes(45min);
  CHECK_FALSE(blind.last(Kind::hung));
}

TEST_CASE("a rank that cannot be read completely is never given up") {
  Job job;
  job.warm().call(0).does(1, [](auto& sample) { sample.is_complete = false; }).passes(45min);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::warned});
}

TEST_CASE("a rank that was stopped for long is not given up when it continues") {
  Job job;
  job.warm().call(0).computes(1).passes(40min);
  job.does(1, nullptr);
  job.ranks[1].process->state = 'T';
  job.passes(40min);
  job.ranks[1].process->state = 'S';
  job.passes(20min);
  CHECK_FALSE(job.last(Kind::hung));
  job.passes(15min);
  CHECK(job.last(Kind::hung));
}

TEST_CASE("a rank that was active alone for long is reported before its limit ends the job") {
  Job job(hang_plan(60s));
  job.warm().computes(1).passes(59s);
  const auto began = job.now();
  job.call(0).passes(30s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::warned, Kind::hung});
  CHECK(job.last_news_after(began) == Approx(17).margin(1.5));  // this is 2 s after the first report
}

TEST_CASE("unknown ranks of other nodes are never given up") {
  Job job;
  for (RankView& view : job.ranks) view.page.groups[0].size = 4;
  job.warm().call(0).call(1).passes(45min);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::warned});
}

TEST_CASE("time without samples does not count towards a limit") {
  Job job;
  job.warm().call(0).passes(2s);
  job.sample(8h);
  job.passes(2s);
  CHECK(job.news.empty());
}

TEST_CASE("a stopped rank is reported within a second and stops the clocks") {
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
  // The time before the stop counts, and the time of the stop does not.
  job.passes(32min);
  CHECK(job.kinds() == std::vector{Kind::stopped, Kind::resumed, Kind::stalled, Kind::warned, Kind::hung});
  CHECK(job.last_news_after(began) == Approx(3600 + 1803).margin(10));
}

TEST_CASE("a tracer that stops a rank repeatedly does not stop the clocks") {
  Job job;
  job.warm().call(0);
  job.ranks[1].process->state = 't';
  job.waking_rank = 1;
  job.passes(10s);
  CHECK(job.kinds() == std::vector{Kind::stalled});
  job.waking_rank = -1;  // a debugger holds the rank now
  job.passes(5s);
  CHECK(job.kinds() == std::vector{Kind::stalled, Kind::stopped});
}

TEST_CASE("sleeping programs without the runtime are left alone unless the user set a limit") {
  for (const HangPlan& plan : {HangPlan{}, hang_plan(60s)}) {
    Job job(plan);
    for (RankView& view : job.ranks) view.page = {};
    job.passes(45min);
    CHECK(job.news.empty() == !plan.timeout);
  }
}

TEST_CASE("an exited rank is judged by data read after its exit, however long others had waited") {
  // Rank 1 came at last, both ranks finished, and rank 1 ended. The reader's data on rank 0 are older than that.
  const auto reported_after = [](bool is_sampled, bool is_final) {
    Job job;
    job.warm().call(0);
    for (RankView& rank : job.ranks) rank.page.groups[0].is_sampled = is_sampled;
    job.passes(4s);
    job.ranks[1].has_ended = true;
    job.ranks[1].page.groups[0].is_final = is_final;
    const auto ended = job.now();
    job.passes(20s);
    REQUIRE_FALSE(job.news.empty());
    CHECK(job.news.front().second.verdict.kind == VerdictKind::ended);
    // Without its last records, it is only reported.
    CHECK((job.news.front().second.kind == Kind::hung) == (is_final || !is_sampled));
    CHECK((job.last(Kind::hung) != nullptr) == (is_final || !is_sampled));
    return std::chrono::duration<double>(job.news.front().first - ended).count();
  };
  CHECK(reported_after(false, false) == Approx(5).margin(1.1));
  CHECK(reported_after(true, true) == Approx(5).margin(1.1));
  CHECK(reported_after(true, false) == Approx(8).margin(1.1));
}

TEST_CASE("an exited rank is not awaited for long") {
  Job job;
  job.warm().call(0);
  job.ranks[1].has_ended = true;
  const auto began = job.now();
  job.passes(10s);
  REQUIRE(job.kinds() == std::vector{Kind::hung});
  CHECK(job.news.back().second.verdict.kind == VerdictKind::ended);
  CHECK(job.last_news_after(began) == Approx(5).margin(1.1));
}

TEST_CASE("a hang that can never resolve ends the job within seconds") {
  Job job;
  job.warm();
  for (int rank = 0; rank < 2; ++rank) {
    job.call(rank);
    const std::uint64_t called = job.ranks[0].page.groups[0].called;
    job.ranks[static_cast<std::size_t>(rank)].calls = {
        {{called, 7U + static_cast<std::uint64_t>(rank), 1, "barrier", "", ""}}};
  }
  const auto began = job.now();
  job.passes(5s);
  REQUIRE(job.kinds() == std::vector{Kind::hung});
  CHECK(job.last_news_after(began) <= 2.1);
}

TEST_CASE("a worker may request more time") {
  Job job(hang_plan(60s));
  job.warm().call(0);
  job.ranks[1].page.more_time_until = static_cast<std::uint64_t>((job.now() + 900s).count());
  const auto began = job.now();
  job.passes(890s);
  CHECK_FALSE(job.last(Kind::hung));
  job.passes(20s);
  CHECK(job.last(Kind::hung));
  CHECK(job.last_news_after(began) == Approx(900).margin(2));
}

TEST_CASE("more time for a waiting rank does not extend that of the awaited rank") {
  Job job(hang_plan(60s));
  job.warm().call(0);
  job.ranks[0].page.more_time_until = static_cast<std::uint64_t>((job.now() + 900s).count());
  const auto began = job.now();
  job.passes(70s);
  REQUIRE(job.last(Kind::hung));
  CHECK(job.last_news_after(began) == Approx(60).margin(2));
}

TEST_CASE("a job that only warns repeats its warning at growing intervals") {
  Job job(hang_plan(30s, HangAction::warn));
  job.warm().call(0).passes(65s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::warned, Kind::hung, Kind::hung});
  for (const auto& [when, news] : job.news) CHECK_FALSE(news.ends_job);
  job.passes(50s);
  CHECK(job.news.size() == 4);
  job.passes(10s);
  CHECK(job.news.size() == 5);
}

TEST_CASE("nothing is detected without a timeout") {
  Job job(hang_plan(0s));
  job.warm().call(0);
  job.ranks[1].process->state = 'T';
  job.passes(1h);
  CHECK(job.news.empty());
}

TEST_CASE("an old unused group does not cause deep samples") {
  HangDetector detector{HangPlan()};
  std::vector<RankView> ranks = Job().ranks;
  int deep = 0;
  for (int i = 0; i < 2000; ++i) {
    // A second group continues, while the first one is idle.
    for (RankView& view : ranks) {
      if (view.page.groups.size() == 1) view.page.groups.push_back({"other", view.rank, 2, 1, 0, 0, 0, 0, 0});
      ++view.page.groups[1].called;
      ++view.page.groups[1].finished;
    }
    detector.pass(limits::kHangSampleInterval, 0);
    deep += detector.next().depth == SampleDepth::all ? 1 : 0;
    detector.add(ranks, detector.next().depth);
  }
  CHECK(deep == 0);
}

TEST_CASE("a stall is warned of once at half of its limit") {
  Job job(hang_plan(600s));
  job.warm().call(0);
  const auto began = job.now();
  job.passes(320s);
  REQUIRE(job.kinds() == std::vector{Kind::stalled, Kind::warned});
  // Without a sign of life the warning comes earlier.
  CHECK(job.last_news_after(began) == Approx(63).margin(5));
  job.call(1).finish(0).finish(1).passes(2s).call(0).computes(1).passes(20s);
  REQUIRE(job.last(Kind::goes_on));
  const auto again = job.now();
  job.passes(320s);
  CHECK(job.news.back().second.kind == Kind::warned);
  CHECK(job.last_news_after(again) == Approx(280).margin(2));
}

TEST_CASE("a requested report shows what all ranks do at any timeout") {
  Job job(hang_plan(0s));
  const HangDetector detector(hang_plan(0s));
  HangNews news = detector.describe(job.ranks);
  CHECK(news.kind == Kind::asked);
  CHECK(news.verdict.kind == VerdictKind::silent);
  CHECK(news.ranks.size() == 2);
  CHECK_FALSE(news.ranks[0].activity);
  CHECK_FALSE(news.ends_job);
  job.call(0);
  news = detector.describe(job.ranks);
  CHECK(news.verdict.kind == VerdictKind::not_called);
  CHECK(news.verdict.culprits == std::vector<int>{1});
}

TEST_CASE("a rank may request more time than a clock can hold") {
  Job job(hang_plan(60s));
  job.warm().call(0);
  job.ranks[1].page.more_time_until = ~std::uint64_t{0};
  job.passes(10min);
  CHECK_FALSE(job.last(Kind::hung));
}

TEST_CASE("a node that sees only some ranks waits until one that sees all could have reported") {
  Job job(hang_plan(60s), /*others_judge=*/true);
  job.warm().call(0);
  const auto began = job.now();
  job.passes(70s);
  REQUIRE(job.kinds() == std::vector{Kind::hung});
  CHECK(job.last_news_after(began) == Approx(65).margin(1.1));
}
