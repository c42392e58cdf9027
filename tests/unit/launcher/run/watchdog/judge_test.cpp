#include "launcher/run/watchdog/judge.h"

#include <string>
#include <utility>
#include <vector>

#include "launcher/run/ranks/rank_book.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

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

TEST_CASE("the next sample is deep once per second, and measures activity if a rank waits") {
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
