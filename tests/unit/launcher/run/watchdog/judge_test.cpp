// Tests judgements of pictures, and of jobs whose pictures follow each other on a simulated clock.
#include "launcher/run/watchdog/judge.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/ranks/rank_book.h"
#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;

namespace {

// Three ranks that the pages describe. Rank 2 has not called what the others wait in, if `is_late`.
struct Job {
  explicit Job(bool is_late) {
    for (int number = 0; number < 3; ++number) {
      RankView rank;
      rank.rank = number;
      rank.pid = 100 + number;
      rank.process = ProcessSample{'S', 0, 0, ""};
      rank.activity = RankActivity{};
      rank.activity->is_complete = true;
      const bool waits = is_late && number < 2;
      rank.page.is_written = true;
      rank.page.phase = RankPhase::training;
      rank.page.calling_threads = 1;
      rank.page.waiting_threads = waits ? 1 : 0;
      const std::uint64_t called = waits ? 8 : 7;
      rank.page.groups.push_back({"world", number, 3, 0, called, called, 7});
      ranks.push_back(rank);
    }
  }
  // For `time`, the ranks do nothing else.
  Job& passes(std::chrono::nanoseconds time) {
    sample();
    for (RankView& rank : ranks) {
      rank.activity->still_for += time;
      rank.activity->unmoved_for += time;
    }
    book.pass(time, 7);
    sample();
    return *this;
  }
  void sample() { book.add(ranks, SampleDepth::all); }
  Judgement judge(const HangPlan& plan = {}) const { return ddp::launcher::judge(book.picture(), plan); }

  std::vector<RankView> ranks;
  RankBook book{false, 24h};
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Returns after how many seconds the job is over its limit, or -1 if it is not.
double hung_after(HangingJob& job, std::chrono::nanoseconds time) {
  const auto began = job.now();
  job.passes(time);
  return job.last(Kind::hung) == nullptr ? -1.0 : job.last_news_after(began);
}

GroupView seen_in_stack() {
  GroupView group = {"world", 0, 2, 0, 1, 1, 0, 0, 0};
  group.is_sampled = group.is_by_stack = true;
  return group;
}

}  // namespace

TEST_CASE("a judgement names the awaited rank, the duration, its activity and when the job ends") {
  Job job(/*is_late=*/true);
  job.passes(1s).passes(8s);
  job.ranks[2].activity->last_sign = Sign::processor;
  job.ranks[2].activity->cpu_share = 0.9;
  job.ranks[2].activity->still_for = 0s;
  job.sample();
  const Judgement judgement = job.judge();
  REQUIRE(judgement.verdict);
  CHECK(judgement.verdict->culprits == std::vector{2});
  CHECK(judgement.age == 9s);
  CHECK(judgement.explanation ==
        "rank 2 has been awaited for 9.0 s; rank 2: it uses a processor (CPU 90 %); that is reported "
        "after 15.0 s; the limit of 30 min (no sign of life) is over in 30 min");
}

TEST_CASE("a judgement explains why there is no verdict") {
  Job job(/*is_late=*/false);
  CHECK(contains(job.passes(1s).judge().explanation, "no verdict: no rank waits in a known operation"));
  job.passes(1min);
  job.ranks[1].activity->still_for = 2s;
  Job lives = job;
  lives.sample();
  // A sign of life that was seen does not grow old by a later sample.
  CHECK(lives.judge().verdict);
  job.ranks[0].activity.reset();
  job.sample();
  CHECK(job.judge().is_unsure);
  CHECK(job.judge().explanation == "no verdict: it is not known yet what rank 0 does");
}

TEST_CASE("data moved by a waiting rank is a sign of life, and its other activity is not") {
  // Rank 2 waits, too, in an operation that the pages do not show. Rank 1 may be the one that it waits for.
  const auto still_for = [](std::chrono::nanoseconds still, std::chrono::nanoseconds unmoved) {
    Job job(/*is_late=*/true);
    job.ranks[2].page.waiting_threads = 1;
    job.passes(1s).passes(1h);
    job.ranks[1].activity->still_for = still;
    job.ranks[1].activity->unmoved_for = unmoved;
    job.sample();
    const Judgement judgement = job.judge();
    REQUIRE(judgement.verdict);
    CHECK(judgement.verdict->culprits == std::vector{2});
    return judgement.stall->ends_in <= 0s;
  };
  CHECK(still_for(1h, 1h));
  CHECK(still_for(0s, 1h));
  CHECK_FALSE(still_for(1h, 0s));
}

TEST_CASE("a rank that is blamed for the first time is not given up at once") {
  Job job(/*is_late=*/true);
  job.book.add(job.ranks, SampleDepth::pages);  // the pages do not say who waits for whom
  job.book.pass(1h, 7);
  job.sample();
  HangPlan plan;
  plan.timeout = 60s;
  CHECK(job.judge(plan).age == 1h);
  CHECK(job.judge(plan).stall->ends_in == 5s);
  job.book.pass(5s, 7);
  job.sample();
  CHECK(job.judge(plan).stall->ends_in <= 0s);
}

TEST_CASE("the watchdog samples processes once per second, and activity once a rank has waited for 2 s") {
  Job job(/*is_late=*/true);
  const HangPlan plan;
  CHECK(next_sample(job.book.picture(), plan).depth == SampleDepth::states);
  job.sample();
  CHECK(next_sample(job.book.picture(), plan).depth == SampleDepth::pages);
  job.book.pass(1s, 7);
  CHECK(next_sample(job.book.picture(), plan).depth == SampleDepth::all);
  CHECK_FALSE(next_sample(job.book.picture(), plan).measures_activity);
  job.book.pass(1s, 7);
  CHECK(next_sample(job.book.picture(), plan).measures_activity);
  HangPlan off;
  off.timeout = 0s;
  CHECK(next_sample(job.book.picture(), off).depth == SampleDepth::states);
  job.ranks[0].process->state = 'T';
  job.sample();
  job.book.pass(1s, 7);
  CHECK(next_sample(job.book.picture(), plan).depth == SampleDepth::all);  // it may run again
  CHECK_FALSE(next_sample(job.book.picture(), plan).measures_activity);
}

TEST_CASE("an old group without new calls does not cause deep samples") {
  Job job(/*is_late=*/false);
  for (RankView& rank : job.ranks) {
    rank.page.waiting_threads = 0;
    rank.page.groups.push_back(rank.page.groups[0]);
    rank.page.groups[1].identity = 2;
  }
  for (int i = 0; i < 100; ++i) {
    for (RankView& rank : job.ranks) rank.page.groups[1].finished = ++rank.page.groups[1].called;
    job.book.pass(500ms, 7);
    job.book.add(job.ranks, SampleDepth::pages);
    CHECK(next_sample(job.book.picture(), {}).depth == SampleDepth::states);
  }
}

TEST_CASE("a mismatch is judged once the calls of both sides are known") {
  HangingJob job;
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
  HangingJob job;
  job.warm().call(0).computes(1).passes(40min);
  job.call(1).finish(1).does(1, nullptr).passes(20min);  // rank 1 has done its part before the others
  CHECK_FALSE(job.last(Kind::hung));
  job.passes(11min);
  CHECK(job.last(Kind::hung));
}

TEST_CASE("a rank that cannot be read completely is never given up") {
  for (const bool is_complete : {true, false}) {
    Job job(/*is_late=*/true);
    job.ranks[2].activity->is_complete = is_complete;
    job.passes(1s).passes(1h);
    REQUIRE(job.judge().stall);
    CHECK(job.judge().stall->ends_in.has_value() == is_complete);
  }
}

TEST_CASE("a verdict that nothing can resolve is more pressing than an older one") {
  Job job(/*is_late=*/true);
  job.passes(1min);
  CHECK(job.judge().verdict->culprits == std::vector{2});
  // Rank 3 waits for rank 4, which has exited.
  for (int number = 3; number < 5; ++number) {
    RankView rank = job.ranks[0];
    rank.rank = number;
    rank.has_ended = number == 4;
    const std::uint64_t called = number == 3 ? 1 : 0;
    rank.page.groups = {{"pair", number - 3, 2, 0, called, called, 0}};
    job.ranks.push_back(rank);
  }
  job.passes(1s);
  CHECK(job.judge().verdict->kind == VerdictKind::ended);
  CHECK(job.judge().verdict->culprits == std::vector{4});
}

TEST_CASE("an exited rank is judged by data read after its exit, however long others had waited") {
  // Rank 1 came at last, both ranks finished, and rank 1 ended. The reader's data on rank 0 are older than that.
  const auto reported_after = [](bool is_sampled, bool is_final) {
    HangingJob job;
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
    CHECK((job.last(Kind::hung) != nullptr) == (is_final || !is_sampled));
    return std::chrono::duration<double>(job.news.front().first - ended).count();
  };
  CHECK(reported_after(false, false) == Approx(5).margin(1.1));
  CHECK(reported_after(true, true) == Approx(5).margin(1.1));
  CHECK(reported_after(true, false) == Approx(8).margin(1.1));
}

TEST_CASE("the awaited rank may request more time, up to forever, and a waiting rank may not") {
  const auto ends_after = [](std::size_t rank, std::optional<std::chrono::nanoseconds> time) {
    HangingJob job(hang_plan(60s));
    job.warm().call(0);
    job.ranks[rank].page.more_time_until =
        time ? static_cast<std::uint64_t>((job.now() + *time).count()) : ~std::uint64_t{0};
    return hung_after(job, 1000s);
  };
  CHECK(ends_after(1, 900s) == Approx(900).margin(2));
  CHECK(ends_after(0, 900s) == Approx(60).margin(2));
  CHECK(ends_after(1, std::nullopt) == -1.0);
}

TEST_CASE("an operation that began long ago counts from when it is awaited") {
  for (const bool is_transfer : {false, true}) {
    HangingJob job;
    for (RankView& rank : job.ranks) rank.page.calling_threads = 1;
    job.warm();
    PageView& page = job.ranks[0].page;
    if (is_transfer) page.groups[0].transfers.push_back({.peer = 1, .number = 1, .what = "f32[8]"});
    if (!is_transfer) job.call(0);
    job.passes(40min);  // all ranks sleep
    page.waiting_threads = 1;
    if (is_transfer) page.groups[0].transfers[0].is_waited_for = true;
    job.passes(29min);
    CHECK_FALSE(job.last(Kind::hung));
    job.passes(2min);
    REQUIRE(job.last(Kind::hung));
    CHECK(job.last(Kind::hung)->verdict.culprits == std::vector<int>{1});
  }
}

TEST_CASE("a transfer counts from the later of its two calls") {
  HangingJob job;
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
    HangingJob job(plan);
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
  HangingJob job = chain({});
  job.passes(45min);
  CHECK_FALSE(job.last(Kind::hung));
  SECTION("the third rank comes") {
    job.others[0].activity = RankActivity{40min, 40min, true};
    job.others[0].page.waiting_threads = 1;
    job.passes(2s);
    job.ranks[1].page.waiting_threads = 0;  // rank 1 goes on, and has not shown the new group yet
  }
  SECTION("the third rank comes and ends") {
    job.others[0].activity.reset();
    job.others[0].has_ended = true;
  }
  job.passes(25min);
  CHECK_FALSE(job.last(Kind::hung));
  job.others[0].activity = RankActivity{40min, 40min, true};
  job.passes(10min);
  CHECK(job.last(Kind::hung));
  HangingJob limited = chain(hang_plan(60s));
  for (int i = 0; i < 30; ++i) {
    ++limited.others[0].page.steps;
    limited.passes(10s);
  }
  CHECK_FALSE(limited.last(Kind::hung));
  limited.passes(70s);
  CHECK(limited.last(Kind::hung));
}

TEST_CASE("a circle counts from when its last rank began to wait") {
  HangingJob job(hang_plan(600s));
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
  CHECK(hung_after(job, 700s) == Approx(600).margin(1.1));
  CHECK(job.news.back().second.verdict.kind == VerdictKind::each_other);
  CHECK(job.news.back().second.judgement.hang_class == HangClass::users_limit);
}

TEST_CASE("ranks that wait for their GPUs are given up if it is known that no data moves between them") {
  enum class Data : std::uint8_t { unknown, moves, rests };
  for (const Data data : {Data::unknown, Data::moves, Data::rests}) {
    HangingJob job;
    job.warm().call(0).call(1);
    for (RankView& view : job.ranks) {
      view.page.groups[0].gpu_queued = view.page.groups[0].gpu_started = view.page.groups[0].called;
      view.page.groups[0].gpu_finished = view.page.groups[0].finished;
      job.does(view.rank, [=, moved = std::uint64_t{0}](ActivitySample& sample) mutable {
        sample.gpu = {100, std::nullopt};  // the process spins
        if (data == Data::moves) moved += std::uint64_t{1} << 20;
        if (data != Data::unknown) sample.gpu->moved_bytes = moved;
      });
    }
    job.passes(45min);
    CHECK((job.last(Kind::hung) != nullptr) == (data == Data::rests));
  }
}

TEST_CASE("a wait found in stacks counts from its beginning, and data moved by the awaited rank is progress") {
  const auto ended_after = [](bool moves_data) {
    HangingJob job(hang_plan(20s));
    for (RankView& view : job.ranks) {
      view.page = {};
      view.is_torch = true;
    }
    job.computes(0).computes(1).passes(10min);
    CHECK(job.news.empty());
    job.ranks[0].page.groups = {seen_in_stack()};
    if (moves_data) job.does(1, [](ActivitySample& sample) { sample.connections[0].bytes += 1'000'000; });
    return hung_after(job, 60s);
  };
  CHECK(ended_after(false) == Approx(15).margin(1.1));  // five seconds had passed before
  CHECK(ended_after(true) == -1.0);
}

TEST_CASE("a wait found in stacks is reported sooner in a job whose pauses are known") {
  const auto reported_after = [](bool is_warm) {
    HangingJob job;
    for (RankView& view : job.ranks) view.page.groups[0].identity = 5;  // what stacks tell has no identity
    if (is_warm) job.warm();
    for (RankView& view : job.ranks) view.is_torch = true;
    job.computes(0).computes(1).passes(5s);
    job.ranks[0].page.groups.push_back(seen_in_stack());
    job.passes(30s);
    REQUIRE(job.last(Kind::stalled));
    return std::chrono::duration<double>(job.last(Kind::stalled)->age).count();
  };
  CHECK(reported_after(false) == Approx(15).margin(1.1));
  CHECK(reported_after(true) == Approx(10).margin(1.1));
}

TEST_CASE("data that a rank exchanges with others counts as progress that PyTorch does not record") {
  const auto ended_after = [](bool exchanges, bool uses_nccl) {
    HangingJob job(hang_plan(15s));
    job.warm();
    for (RankView& view : job.ranks) {
      view.is_torch = view.page.groups[0].is_sampled = true;
      if (uses_nccl) view.page.groups[0].gpu_queued = 1;
    }
    if (exchanges) job.does(1, [](ActivitySample& sample) { sample.peer_bytes += 16; });
    job.call(0);
    return hung_after(job, 60s);
  };
  CHECK(ended_after(false, false) == Approx(15).margin(1.1));
  CHECK(ended_after(true, false) == -1.0);
  // Threads of NCCL exchange data without the program.
  CHECK(ended_after(true, true) == Approx(15).margin(1.1));
}

TEST_CASE("a PyTorch rank that began an operation and does something else waits for it only later") {
  const auto ended_after = [](bool waits_later) {
    HangingJob job(hang_plan(15s));
    job.warm();
    for (RankView& view : job.ranks) view.is_torch = view.page.groups[0].is_sampled = true;
    job.call(0).ranks[0].is_elsewhere = true;
    const auto began = job.now();
    job.passes(40s);
    CHECK_FALSE(job.last(Kind::hung));
    job.ranks[0].is_elsewhere = !waits_later;  // if it waits, it has rested for five seconds
    job.passes(60s);
    REQUIRE(job.last(Kind::hung));
    return job.last_news_after(began);
  };
  CHECK(ended_after(true) == Approx(42).margin(1.1));
  CHECK(ended_after(false) == Approx(60).margin(1.1));  // it polls again and again
}
