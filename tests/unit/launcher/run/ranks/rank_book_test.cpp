#include "launcher/run/ranks/rank_book.h"

#include <utility>
#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Two ranks of a group that both have called as often.
std::vector<RankView> ranks_with(std::uint64_t called_by_first, std::uint64_t called_by_second) {
  std::vector<RankView> ranks;
  for (int number = 0; number < 2; ++number) {
    RankView rank;
    rank.rank = number;
    rank.pid = 100 + number;
    rank.process = ProcessSample{'S', 0, 0, ""};
    rank.page.is_written = true;
    rank.page.phase = RankPhase::training;
    rank.page.calling_threads = rank.page.waiting_threads = 1;
    const std::uint64_t called = number == 0 ? called_by_first : called_by_second;
    const std::uint64_t finished = std::min(called_by_first, called_by_second);
    rank.page.groups.push_back({"world", number, 2, 0, called, called, finished});
    ranks.push_back(rank);
  }
  ranks[called_by_first < called_by_second ? 0 : 1].page.waiting_threads = 0;
  return ranks;
}

struct Rig {
  const Picture& sample(std::vector<RankView> ranks, std::chrono::nanoseconds elapsed,
                        SampleDepth depth = SampleDepth::all) {
    book.pass(elapsed, 7);
    book.add(std::move(ranks), depth);
    return book.picture();
  }

  RankBook book{false, 1h};
};

JobTime at(std::chrono::nanoseconds time) {
  return JobTime(time);
}

}  // namespace

TEST_CASE("the waiting time for a rank does not depend on when a sample was taken") {
  Rig rig;
  CHECK(rig.sample(ranks_with(5, 5), 1s).waits.empty());
  REQUIRE(rig.sample(ranks_with(6, 5), 1s).waits.size() == 1);
  CHECK(rig.book.picture().waits[0].verdict.culprits == std::vector{1});
  CHECK(rig.book.picture().waits[0].blamed_since == at(2s));
  CHECK(rig.sample(ranks_with(6, 5), 5s).waits[0].blamed_since == at(2s));
  SECTION("a gap of two seconds does not end it") {
    rig.sample(ranks_with(6, 6), 1s);
    rig.sample(ranks_with(6, 6), 1s);
    CHECK(rig.sample(ranks_with(7, 6), 0s).waits[0].blamed_since == at(2s));
  }
  SECTION("a longer one does") {
    rig.sample(ranks_with(6, 6), 3s);
    CHECK(rig.sample(ranks_with(7, 6), 1s).waits[0].blamed_since == at(11s));
  }
  SECTION("another rank begins again") {
    CHECK(rig.sample(ranks_with(6, 7), 1s).waits[0].blamed_since == at(8s));
  }
  SECTION("a sample that shows no operations has no waits") {
    CHECK(rig.sample(ranks_with(6, 5), 1s, SampleDepth::states).waits.empty());
    CHECK(rig.book.picture().no_waits_since == at(7s));
  }
}

TEST_CASE("the job's clock stops while a rank is stopped") {
  Rig rig;
  std::vector<RankView> ranks = ranks_with(5, 5);
  rig.sample(ranks, 1s);
  ranks[1].process->state = 'T';
  CHECK(rig.sample(ranks, 1s).stopped == std::set{1});
  CHECK(rig.book.picture().moments[1].state == RankState::stopped);
  CHECK(rig.book.picture().now == at(2s));
  ranks[1].process.reset();
  CHECK(rig.sample(ranks, 1min, SampleDepth::pages).now == at(2s));
  CHECK(rig.book.picture().moments[1].state == RankState::stopped);  // the pages do not show that it runs again
  ranks[1].process = ProcessSample{'S', 0, 0, ""};
  CHECK(rig.sample(ranks, 1s).stopped.empty());
  CHECK(rig.sample(ranks, 1s).now == at(3s));
}

TEST_CASE("a process that a tracer holds for a moment does not count as stopped") {
  Rig rig;
  std::vector<RankView> ranks = ranks_with(5, 5);
  ranks[0].process->state = 't';
  CHECK(rig.sample(ranks, 1s).stopped.empty());
  ++ranks[0].process->cpu_ticks;
  CHECK(rig.sample(ranks, 1s).stopped.empty());
  CHECK(rig.sample(ranks, 1s).stopped == std::set{0});  // a debugger holds it
}

TEST_CASE("RankBook limits the interval between samples and remembers the longest pause of a warm process group") {
  RankBook book(false, 250ms);
  const auto sample = [&](std::uint64_t calls, std::chrono::nanoseconds elapsed) {
    book.pass(elapsed, 7);
    book.add(ranks_with(calls, calls), SampleDepth::pages);
  };
  sample(7, 1h);
  CHECK(book.picture().now == at(250ms));
  sample(8, 100ms);
  CHECK(book.picture().longest_pause == 0s);  // the group was not warm yet
  sample(9, 200ms);
  CHECK(book.picture().longest_pause == 200ms);
  CHECK(book.picture().changed_at == at(550ms));
  book.pass(100ms, 8);
  CHECK_FALSE(book.picture().has_news);
  CHECK(book.picture().now == at(650ms));
  CHECK(book.picture().taken_at == 8);
  CHECK(book.picture().ranks.size() == 2);  // they are as they were
}

TEST_CASE("a circle of waiting ranks is proven by consecutive samples") {
  Rig rig;
  std::vector<RankView> ranks = ranks_with(6, 6);
  for (int number = 0; number < 2; ++number) {
    RankView& rank = ranks[static_cast<std::size_t>(number)];
    rank.page.groups.push_back(rank.page.groups[0]);
    rank.page.groups[1].name = "second";
    rank.page.groups[1].identity = 2;
    // Each rank waits in the group that the other one has not called.
    GroupView& called = rank.page.groups[static_cast<std::size_t>(number)];
    called.finished = 6;
    called.called = called.started = 7;
    called.blocked = 1;
    rank.page.calling_threads = rank.page.waiting_threads = rank.page.blocked_threads = 1;
    rank.process->threads = FreeThreads{0, 0};
  }
  REQUIRE(rig.sample(ranks, 1s).waits.size() == 1);
  CHECK(rig.book.picture().waits[0].verdict.kind == VerdictKind::each_other);
  CHECK(rig.book.picture().waits[0].proofs == 1);
  CHECK(rig.sample(ranks, 1s).waits[0].proofs == 2);
  ranks[0].process->threads->free = 1;
  CHECK(rig.sample(ranks, 1s).waits[0].proofs == 0);
  ranks[0].process->threads->free = 0;
  CHECK(rig.sample(ranks, 1s).waits[0].proofs == 1);
  ranks[0].page.groups[0].blocked = 0;  // it has begun the call, and its thread waits elsewhere
  CHECK(rig.sample(ranks, 1s).waits[0].proofs == 0);
}
