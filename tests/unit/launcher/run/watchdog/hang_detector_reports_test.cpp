// Tests what is reported of judgements, and how often.
#include <set>
#include <vector>

#include "launcher/run/watchdog/hang_detector.h"
#include "support/catch.h"

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
