// Tests what is reported of judgements, and how often.
#include "launcher/run/watchdog/hang_detector.h"

#include <chrono>
#include <set>
#include <vector>

#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;

namespace {

// A judgement on a stall of this age, which is reported after 5 s and over after a minute.
Judgement stall_of(std::chrono::nanoseconds age, int culprit = 1) {
  Judgement judgement;
  Verdict& verdict = judgement.verdict.emplace();
  verdict.kind = VerdictKind::not_called;
  verdict.group_identity = 7;
  verdict.sequence = 3;
  verdict.culprits = {culprit};
  verdict.waiting = {0};
  judgement.verdicts = {verdict};
  judgement.age = age;
  judgement.stall = StallJudgement{HangClass::unknown, 5s, age > 30s, 60s - age, 60s, "no sign of life"};
  return judgement;
}

std::vector<Kind> kinds_of(const std::vector<HangNews>& news) {
  std::vector<Kind> kinds;
  for (const HangNews& item : news) kinds.push_back(item.kind);
  return kinds;
}

Picture picture_at(std::chrono::nanoseconds now) {
  Picture picture;
  picture.now = JobTime(now);
  return picture;
}

}  // namespace

TEST_CASE("a stall is reported, warned of and ended once each") {
  StallReports reports{HangPlan()};
  CHECK(reports.add(stall_of(4s), picture_at(4s)).empty());
  CHECK(kinds_of(reports.add(stall_of(5s), picture_at(5s))) == std::vector{Kind::stalled});
  CHECK(reports.add(stall_of(6s), picture_at(6s)).empty());
  CHECK(kinds_of(reports.add(stall_of(31s), picture_at(31s))) == std::vector{Kind::warned});
  CHECK(reports.add(stall_of(32s), picture_at(32s)).empty());
  const auto news = reports.add(stall_of(60s), picture_at(60s));
  CHECK(kinds_of(news) == std::vector{Kind::hung});
  CHECK(news[0].ends_job);
  CHECK(reports.has_ended_job());
}

TEST_CASE("a stall that ends no job is reported again after its limit and then after twice that time") {
  HangPlan plan;
  plan.action = HangAction::warn;
  StallReports reports(plan);
  std::vector<int> seconds;
  for (int second = 1; second < 600; ++second) {
    const std::chrono::seconds age(second);
    const auto news = reports.add(stall_of(age), picture_at(age));
    if (kinds_of(news) == std::vector{Kind::hung}) seconds.push_back(second);
  }
  CHECK(seconds == std::vector{60, 120, 240, 480});
  CHECK_FALSE(reports.has_ended_job());
}

TEST_CASE("a reported stall is over when no rank waits any more, but not while the state is uncertain") {
  StallReports reports{HangPlan()};
  reports.add(stall_of(6s), picture_at(6s));
  CHECK(kinds_of(reports.add({}, picture_at(7s))) == std::vector{Kind::goes_on});
  Judgement silence = stall_of(6s);
  silence.verdict->kind = VerdictKind::silent;
  silence.verdicts.clear();
  CHECK(kinds_of(reports.add(silence, picture_at(8s))) == std::vector{Kind::stalled});
  Judgement unsure;
  unsure.is_unsure = true;
  CHECK(reports.add(unsure, picture_at(9s)).empty());
  CHECK(kinds_of(reports.add({}, picture_at(10s))) == std::vector{Kind::goes_on});
}

TEST_CASE("a node that sees only some ranks reports only hangs that end the job") {
  StallReports reports{HangPlan()};
  Picture part = picture_at(6s);
  part.is_part = true;
  CHECK(reports.add(stall_of(6s), part).empty());
  CHECK(kinds_of(reports.add(stall_of(60s), part)) == std::vector{Kind::hung});
}

TEST_CASE("stopped and continued ranks are reported") {
  StallReports reports{HangPlan()};
  Picture picture;
  CHECK(reports.add_stops(picture).empty());
  picture.stopped = {1, 2};
  const auto news = reports.add_stops(picture);
  REQUIRE(kinds_of(news) == std::vector{Kind::stopped});
  CHECK(news[0].verdict.culprits == std::vector{1, 2});
  picture.stopped = {2, 3};
  CHECK(kinds_of(reports.add_stops(picture)) == std::vector{Kind::stopped, Kind::resumed});
}

TEST_CASE("the stall of a rank that has given up is remembered for some seconds") {
  StallReports reports{HangPlan()};
  reports.add(stall_of(6s), picture_at(6s));
  reports.add({}, picture_at(8s));
  REQUIRE(reports.stall_of(0, JobTime(10s)));
  CHECK(reports.stall_of(0, JobTime(10s))->culprits == std::vector{1});
  CHECK_FALSE(reports.stall_of(0, JobTime(12s)));
}

TEST_CASE("a rank that does nothing while another waits ends the job after half an hour") {
  HangingJob job;
  job.warm().call(0).computes(0);  // what a rank that waits does is no sign of life
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

TEST_CASE("a stopped rank is reported within a second and stops the clocks") {
  HangingJob job;
  job.warm().call(0).passes(2s);
  job.ranks[1].process->state = 'T';
  const auto began = job.now();
  job.passes(1h);
  REQUIRE(job.kinds() == std::vector{Kind::stopped});
  CHECK(job.last_news_after(began) <= 1.1);
  CHECK(job.detector().explanation() == "no verdict: a rank is stopped, so no time passes");
  job.ranks[1].process->state = 'S';
  job.passes(32min);
  CHECK(job.kinds() == std::vector{Kind::stopped, Kind::resumed, Kind::stalled, Kind::warned, Kind::hung});
  CHECK(job.last_news_after(began) == Approx(3600 + 1803).margin(10));
}

TEST_CASE("no rank is named if all ranks wait for a collective that moves data") {
  HangingJob job;
  job.warm().call(0).call(1).passes(8s);
  CHECK_FALSE(job.detector().stall_of(0));
}

TEST_CASE("without a timeout nothing is detected, and a request shows what all ranks do") {
  HangingJob job(hang_plan(0s));
  const auto asked = [&] { return job.detector().describe(job.ranks); };
  CHECK(asked().kind == Kind::asked);
  CHECK(asked().verdict.kind == VerdictKind::silent);
  CHECK(asked().ranks.size() == 2);
  CHECK_FALSE(asked().ends_job);
  job.warm().call(0);
  CHECK(asked().verdict.kind == VerdictKind::not_called);
  CHECK(asked().verdict.culprits == std::vector<int>{1});
  CHECK(job.detector().picture().waits.empty());  // the request is no sample
  job.ranks[1].process->state = 'T';
  job.passes(1h);
  CHECK(job.news.empty());
}
