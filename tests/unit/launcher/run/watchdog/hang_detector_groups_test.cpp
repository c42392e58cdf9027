// Tests several causes at a time, and ranks that wait for each other.
#include <chrono>
#include <functional>
#include <vector>

#include "launcher/run/watchdog/hang_detector.h"
#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("a stall of two ranks is reported although two others continue in their own group") {
  Job job(hang_plan(20s));
  job.warm();
  for (RankView& view : job.ranks) {
    view.page.groups[0].identity = 9;
    view.page.groups[0].size = 2;
  }
  for (int rank = 0; rank < 2; ++rank) {
    RankView view = job.ranks[static_cast<std::size_t>(rank)];
    view.rank = rank + 2;
    view.page.groups[0].identity = 1;  // this group comes first
    view.page.groups[0].rank = rank;
    job.others.push_back(view);
  }
  job.call(0);
  // Each sample finds the others in the middle of a collective.
  job.before_sample = [](Job& of) {
    GroupView& waits = of.others[0].page.groups[0];
    GroupView& late = of.others[1].page.groups[0];
    late.called = late.finished = waits.finished = waits.called;
    ++waits.called;
  };
  job.passes(30s);
  REQUIRE(job.last(Kind::hung));
  CHECK(job.last(Kind::hung)->verdict.culprits == std::vector<int>{1});
  CHECK_FALSE(job.last(Kind::goes_on));
}

TEST_CASE("a stalled receive is reported although others exchange data in the same group") {
  Job job(hang_plan(20s));
  job.warm();
  for (RankView& view : job.ranks) view.page.groups[0].size = 3;
  RankView third = job.ranks[1];
  third.rank = 2;
  third.page.groups[0].rank = 2;
  job.others.push_back(third);
  TransferView receive;
  receive.peer = 1;
  receive.number = 1;
  receive.is_waited_for = true;
  receive.what = "f32[8]";
  job.ranks[0].page.groups[0].transfers.push_back(receive);
  job.ranks[0].page.waiting_threads = job.ranks[0].page.calling_threads = 1;
  job.before_sample = [](Job& of) { ++of.others[0].page.groups[0].transfers_finished; };
  job.passes(30s);
  REQUIRE(job.last(Kind::hung));
  CHECK(job.last(Kind::hung)->verdict.culprits == std::vector<int>{1});
}

TEST_CASE("a receive that began long ago counts from when it is awaited") {
  const auto begins_early = [] {
    Job job;
    job.warm();
    TransferView receive;
    receive.peer = 1;
    receive.number = 1;
    receive.what = "f32[8]";
    job.ranks[0].page.groups[0].transfers.push_back(receive);
    job.ranks[0].page.calling_threads = 1;
    job.passes(40min);  // all ranks sleep
    return job;
  };
  const auto waits = [](Job& job, bool is_so) {
    job.ranks[0].page.groups[0].transfers[0].is_waited_for = is_so;
    job.ranks[0].page.waiting_threads = is_so ? 1 : 0;
  };
  Job late = begins_early();
  waits(late, true);
  late.passes(29min);
  CHECK_FALSE(late.last(Kind::hung));
  late.passes(2min);
  REQUIRE(late.last(Kind::hung));
  CHECK(late.last(Kind::hung)->verdict.culprits == std::vector<int>{1});

  // A rank that waits again and again, with a time-out, waits as well.
  Job patient = begins_early();
  for (int i = 0; i < 31 * 6 && !patient.last(Kind::hung); ++i) {
    waits(patient, true);
    patient.passes(9s);
    waits(patient, false);
    patient.passes(1s);
  }
  CHECK(patient.last(Kind::hung));
}

TEST_CASE("a transfer counts from the later of its two calls") {
  Job job;
  job.warm().computes(1);
  const auto transfer = [&](int rank) {
    TransferView view;
    view.is_send = rank == 0;
    view.peer = 1 - rank;
    view.number = 1;
    view.is_waited_for = true;
    view.called_at = static_cast<std::uint64_t>(job.now().count());
    view.what = "f32[8]";
    PageView& page = job.ranks[static_cast<std::size_t>(rank)].page;
    page.groups[0].transfers.push_back(view);
    page.waiting_threads = page.calling_threads = 1;
  };
  transfer(0);
  job.passes(45min);
  job.does(1, nullptr);
  transfer(1);
  job.passes(25min);
  CHECK_FALSE(job.last(Kind::hung));
  job.passes(10min);
  REQUIRE(job.last(Kind::hung));
  CHECK(job.last(Kind::hung)->verdict.kind == VerdictKind::transport);
}

TEST_CASE("an awaited rank that itself waits for others is given up only if none of them is active", "[slow]") {
  // Rank 0 waits for rank 1 in a collective, and rank 1 waits in new_group() for rank 2.
  const auto chain = [](const HangPlan& plan) {
    Job job(plan);
    job.warm().call(0);
    for (RankView& view : job.ranks) view.page.calling_threads = view.page.waiting_threads = 1;
    RankView third = job.ranks[1];
    third.rank = 2;
    third.page.groups.clear();
    third.page.waiting_threads = 0;
    third.activity = RankActivity{0s, 0s, true};
    job.others.push_back(third);
    return job;
  };
  Job works = chain({});
  works.passes(45min);
  CHECK_FALSE(works.last(Kind::hung));
  SECTION("the third rank stops") {
    works.others[0].activity = RankActivity{40min, 40min, true};
    works.passes(35min);
    CHECK(works.last(Kind::hung));
  }
  SECTION("the third rank comes") {
    works.others[0].activity = RankActivity{40min, 40min, true};
    works.others[0].page.waiting_threads = 1;
    works.passes(2s);
    works.ranks[1].page.waiting_threads = 0;  // rank 1 goes on, and has not shown the new group yet
    works.passes(25min);
    CHECK_FALSE(works.last(Kind::hung));
    works.passes(10min);
    CHECK(works.last(Kind::hung));
  }
  SECTION("the third rank comes and ends") {
    works.others[0].activity.reset();
    works.others[0].has_ended = true;
    works.passes(25min);
    CHECK_FALSE(works.last(Kind::hung));
    works.passes(10min);
    CHECK(works.last(Kind::hung));
  }
  Job limited = chain(hang_plan(60s));
  for (int i = 0; i < 30; ++i) {
    ++limited.others[0].page.steps;
    limited.passes(10s);
  }
  CHECK_FALSE(limited.last(Kind::hung));
  limited.passes(70s);
  CHECK(limited.last(Kind::hung));
}

TEST_CASE("a collective that began long ago counts from when it is awaited") {
  const auto begins_early = [](const HangPlan& plan = {}) {
    Job job(plan);
    for (RankView& rank : job.ranks) rank.page.calling_threads = 1;
    job.warm().call(0).passes(40min);  // all ranks sleep
    return job;
  };
  const auto waits = [](Job& job, bool is_so) { job.ranks[0].page.waiting_threads = is_so ? 1 : 0; };
  Job late = begins_early();
  waits(late, true);
  late.passes(29min);
  CHECK_FALSE(late.last(Kind::hung));
  late.passes(2min);
  REQUIRE(late.last(Kind::hung));
  CHECK(late.last(Kind::hung)->verdict.culprits == std::vector<int>{1});

  // A thread still waits while another thread of its rank works.
  Job busy = begins_early();
  waits(busy, true);
  for (RankView& rank : busy.ranks) rank.page.groups.push_back({"other", rank.rank, 2, 1, 0, 0, 0, 0, 0});
  busy.before_sample = [](Job& of) {
    GroupView& other = of.ranks[0].page.groups[1];
    other.called = ++other.finished;
  };
  busy.passes(31min);
  CHECK(busy.last(Kind::hung));

  // The user's limit does not end a job before the hang is reported.
  Job limited = begins_early(hang_plan(60s));
  const std::size_t reported = limited.news.size();
  waits(limited, true);
  limited.passes(4s);
  CHECK(limited.news.size() == reported);
  limited.passes(60s);
  CHECK(limited.last(Kind::hung));
}

TEST_CASE("ranks that wait for each other end the job once no other thread could help") {
  // Rank 0 waits in one group, and rank 1 in the other.
  const auto circle = [](const std::function<void(RankView & view)>& change) {
    Job job;
    job.warm();
    for (RankView& view : job.ranks) {
      view.page.groups.push_back({"pair", view.rank, 2, 1, 3, 3, 3, 0, 0});
      view.page.calling_threads = 1;
      view.page.waiting_threads = 1;
      view.page.blocked_threads = 1;
      view.page.groups[static_cast<std::size_t>(view.rank)].blocked = 1;
      view.process = ProcessSample{'S', 0, 0, "", FreeThreads{}};
    }
    job.call(0);
    job.ranks[1].page.groups[1].called = 4;
    change(job.ranks[1]);
    return job;
  };
  Job blocked = circle([](RankView&) {});
  const auto began = blocked.now();
  blocked.passes(10s);
  REQUIRE(blocked.last(Kind::hung));
  CHECK(blocked.last(Kind::hung)->judgement.hang_class == HangClass::certain);
  CHECK(blocked.last(Kind::hung)->verdict.kind == VerdictKind::each_other);
  CHECK(blocked.last_news_after(began) <= 6.2);
  const std::vector<std::function<void(RankView & view)>> ways_out = {
      // Another thread has called before.
      [](RankView& view) { view.page.calling_threads = 2; },
      // Another thread has called nothing so far, or nothing is known of the threads.
      [](RankView& view) { view.process->threads->free = 1; }, [](RankView& view) { view.process->threads.reset(); },
      // There is a continuation.
      [](RankView& view) { view.page.continuations = 1; },
      // The wait has a time-out of the program, or is for other ranks to join.
      [](RankView& view) { view.page.blocked_threads = view.page.groups[1].blocked = 0; },
      // The group's operation was only begun, and the thread waits for something else.
      [](RankView& view) { view.page.groups[1].blocked = 0; }};
  for (std::size_t i = 0; i < ways_out.size(); ++i) {
    CAPTURE(i);
    Job may_go_on = circle(ways_out[i]);
    may_go_on.passes(20s);
    CHECK(may_go_on.kinds() == std::vector{Kind::stalled});
  }
}

TEST_CASE("a circle counts from when its last rank began to wait") {
  Job job(hang_plan(600s));
  job.warm();
  for (RankView& view : job.ranks) {
    view.page.groups.push_back({"pair", view.rank, 2, 1, 3, 3, 3, 0, 0});
    view.page.calling_threads = 2;  // another thread may resolve it
  }
  const auto waits = [&](std::size_t rank, std::size_t group) {
    PageView& page = job.ranks[rank].page;
    ++page.groups[group].called;
    page.waiting_threads = page.blocked_threads = page.groups[group].blocked = 1;
  };
  waits(0, 0);
  job.computes(1).passes(400s);
  job.does(1, nullptr);
  waits(1, 1);
  const auto closed = job.now();
  job.passes(700s);
  REQUIRE(job.last(Kind::hung));
  CHECK(job.last(Kind::hung)->verdict.kind == VerdictKind::each_other);
  CHECK(job.last(Kind::hung)->judgement.hang_class == HangClass::users_limit);
  CHECK(job.last_news_after(closed) == Approx(600).margin(1.1));
}

TEST_CASE("the awaited rank is remembered for a moment after the waiting rank has given up") {
  Job job;
  job.warm().call(0).passes(8s);
  const auto stall = [&] { return job.detector().stall_of(0); };
  REQUIRE(stall());
  CHECK(stall()->kind == VerdictKind::not_called);
  CHECK(stall()->culprits == std::vector<int>{1});
  job.ranks[0].page.groups[0].is_left = true;
  job.passes(1s);
  CHECK(stall());
  job.passes(10s);
  CHECK_FALSE(stall());
}

TEST_CASE("no rank is named if all ranks wait for a collective that moves data") {
  Job job;
  job.warm().call(0).call(1).passes(8s);
  CHECK_FALSE(job.detector().stall_of(0));
}
