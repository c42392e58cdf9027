#include "launcher/run/ranks/rank_times.h"

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Follows one rank, as RankBook does.
class RankClock {
 public:
  bool add_sample(const RankView& rank, std::chrono::nanoseconds elapsed) {
    now_ += elapsed;
    const bool has_progress = seen_.page != rank.page;
    seen_ = rank;
    times_.add(rank, has_progress, now_);
    return has_progress;
  }
  void advance(std::chrono::nanoseconds elapsed) { add_sample(seen_, elapsed); }

  std::chrono::nanoseconds age() const { return now_ - times_.progress_at(); }
  std::chrono::nanoseconds still() const { return now_ - times_.sign_at(); }
  std::chrono::nanoseconds unmoved() const { return now_ - times_.data_at(); }
  std::chrono::nanoseconds settled() const { return now_ - times_.settled_since(); }
  std::chrono::nanoseconds ended_for() const { return now_ - times_.ended_at().value(); }
  std::chrono::nanoseconds may_have_waited() const { return now_ - times_.may_wait_since(now_); }
  bool pauses() const { return times_.pauses(); }
  bool waits() const { return times_.waits(); }

 private:
  RankTimes times_;
  RankView seen_;
  JobTime now_{};
};

RankView rank_that(bool waits) {
  RankView rank;
  rank.page.is_written = true;
  rank.page.calling_threads = 1;
  rank.page.waiting_threads = waits ? 1 : 0;
  return rank;
}

}  // namespace

TEST_CASE("a change of the page is progress, and a wait is not") {
  RankClock clock;
  RankView rank = rank_that(false);
  CHECK(clock.add_sample(rank, 1s));
  CHECK_FALSE(clock.add_sample(rank_that(true), 1s));
  CHECK(clock.age() == 1s);
  clock.advance(9s);
  CHECK(clock.age() == 10s);
  CHECK(clock.still() == 10s);
  rank.page.steps = 1;
  CHECK(clock.add_sample(rank, 1s));
  CHECK(clock.age() == 0s);
}

TEST_CASE("measured activity limits the age of a rank's last sign of life") {
  RankClock clock;
  RankView rank = rank_that(false);
  clock.add_sample(rank, 1s);
  rank.activity = RankActivity{3s, 5s};
  clock.add_sample(rank, 1min);
  CHECK(clock.still() == 3s);
  CHECK(clock.unmoved() == 5s);
  CHECK(clock.age() == 1min);
}

TEST_CASE("RankTimes restarts a rank's time when a wait begins or ends, except at short pauses within a wait") {
  RankClock clock;
  clock.add_sample(rank_that(false), 1s);
  clock.advance(1min);
  CHECK(clock.settled() == 61s);
  CHECK_FALSE(clock.pauses());
  clock.add_sample(rank_that(true), 1s);
  CHECK(clock.settled() == 0s);
  clock.advance(1min);
  CHECK(clock.settled() == 1min);
  clock.add_sample(rank_that(false), 1s);
  CHECK(clock.settled() == 0s);
  CHECK(clock.pauses());
  SECTION("short pauses do not end a wait") {
    clock.advance(2s);
    clock.add_sample(rank_that(true), 1s);
    clock.advance(1s);
    CHECK(clock.settled() == 62s);
  }
  SECTION("a long pause ends it") {
    clock.advance(6s);
    CHECK_FALSE(clock.pauses());
    clock.add_sample(rank_that(true), 1s);
    CHECK(clock.settled() == 0s);
  }
}

TEST_CASE("a thread that stops waiting, or a continuation, begins a new activity") {
  RankClock clock;
  RankView rank = rank_that(true);
  rank.page.calling_threads = rank.page.waiting_threads = 2;
  clock.add_sample(rank, 1s);
  clock.advance(1min);
  CHECK(clock.settled() == 1min);
  SECTION("a thread stops waiting") {
    rank.page.waiting_threads = 1;
    clock.add_sample(rank, 1s);
    CHECK(clock.settled() == 0s);
    CHECK(clock.pauses());
    clock.advance(6s);
    CHECK_FALSE(clock.pauses());
    clock.advance(1min);
    CHECK(clock.settled() == 1min);
  }
  SECTION("a continuation runs") {
    rank.page.continuations = 1;
    clock.add_sample(rank, 1s);
    clock.advance(1min);
    CHECK(clock.settled() == 1min);
    CHECK(clock.still() == 1min);
    rank.page.continuations = 0;
    clock.add_sample(rank, 1s);
    CHECK(clock.settled() == 0s);
    CHECK(clock.still() == 0s);
    CHECK(clock.age() > 1min);
  }
}

TEST_CASE("the exit of a rank ends its wait and starts the time since its exit") {
  RankClock clock;
  clock.add_sample(rank_that(true), 1s);
  RankView ended = rank_that(true);
  ended.has_ended = true;
  clock.add_sample(ended, 1s);
  CHECK_FALSE(clock.waits());
  clock.advance(5s);
  CHECK(clock.ended_for() == 5s);
  CHECK(clock.settled() == 5s);
}

TEST_CASE("short interruptions do not end a wait, and long ones do") {
  RankClock clock;
  clock.add_sample(rank_that(true), 1s);
  clock.advance(1min);
  CHECK(clock.may_have_waited() == 1min);
  clock.add_sample(rank_that(false), 1s);
  clock.add_sample(rank_that(true), 4s);
  CHECK(clock.may_have_waited() == 65s);
  clock.add_sample(rank_that(false), 1s);
  clock.advance(6s);
  CHECK(clock.may_have_waited() == 0s);
  clock.add_sample(rank_that(true), 1s);
  clock.advance(2s);
  CHECK(clock.may_have_waited() == 2s);
}
