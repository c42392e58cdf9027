#include "launcher/run/ranks/root_causes.h"

#include <chrono>
#include <functional>
#include <vector>

#include "launcher/run/watchdog/verdict_text.h"
#include "support/catch.h"
#include "support/group_ranks.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

TEST_CASE("groups with the same name and size are distinguished by their identities") {
  // This is the usual grid: each rank is in two groups of two, to which the program gave one name.
  Ranks ranks(4);
  const auto join = [&](std::uint64_t identity, int rank, int group_rank, std::uint64_t called) {
    ranks.also_in("pair", rank, group_rank, 2, called, 2);
    ranks.views[static_cast<std::size_t>(rank)].page.groups.back().identity = identity;
  };
  join(1, 0, 0, 2);
  join(1, 1, 1, 2);
  join(2, 2, 0, 3);  // rank 2 waits for rank 3
  join(2, 3, 1, 2);
  const auto verdict = ranks.verdict();
  REQUIRE(blame_in(verdict) == "not called: 3");
  CHECK(verdict->waiting == std::vector<int>{2});
  CHECK(verdict->group_identity == 2);
  CHECK_FALSE(verdict->is_partial);
}

TEST_CASE("in a chain of sends and receives the rank that waits for no other rank is the culprit") {
  Ranks pipeline(4);
  pipeline.recv(0, 1, 5).recv(1, 2, 5).recv(2, 3, 5);
  const auto verdict = pipeline.verdict();
  REQUIRE(blame_in(verdict) == "not called: 3");
  CHECK(verdict->waiting == std::vector<int>{2});
  CHECK(verdict->call == "send f32[8] to rank 2");
  CHECK(verdict->sequence == 5);
  CHECK(verdict->is_transfer);
  // Rank 3 waits for a collective that the others have not called.
  pipeline.at(3, 1, 0);
  CHECK(pipeline.verdict()->kind == VerdictKind::each_other);
  pipeline.views[3].has_ended = true;
  CHECK(pipeline.verdict()->kind == VerdictKind::ended);
}

TEST_CASE("a rank that works while its collective is pending is not merely waiting") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 6, 6).at(2, 7, 6);
  // Rank 1 has called in the pair, and sleeps; rank 2 waits in the world and has not called in the pair.
  ranks.also_in("pair", 1, 0, 2, 3, 2).also_in("pair", 2, 1, 2, 2, 2);
  for (RankView& view : ranks.views) {
    view.page.calling_threads = 1;
    view.page.waiting_threads = view.rank == 1 ? 0 : 1;
  }
  const auto verdict = ranks.verdict();
  REQUIRE(blame_in(verdict) == "not called: 1");
  ranks.views[1].page.waiting_threads = 1;
  CHECK(ranks.verdict()->kind == VerdictKind::each_other);
}

TEST_CASE("a rank that waits in an unrecorded operation is not a culprit") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 6, 6).at(2, 6, 6);
  ranks.views[1].page.calling_threads = ranks.views[1].page.waiting_threads = 1;
  REQUIRE(ranks.verdict());
  CHECK(ranks.verdict()->culprits == std::vector<int>{2});
  ranks.views[2].page.calling_threads = ranks.views[2].page.waiting_threads = 1;
  CHECK(ranks.verdict()->culprits == std::vector<int>{1, 2});  // one of them is the culprit
}

TEST_CASE("a rank that computes while its collective is pending is awaited") {
  Ranks ranks(2);
  // Rank 0 has done #6 and waits in #7; rank 1 has called #6 and computes.
  ranks.at(0, 7, 6).at(1, 6, 5);
  for (RankView& view : ranks.views) view.page.calling_threads = 1;
  ranks.views[0].page.waiting_threads = 1;
  const auto verdict = ranks.verdict();
  REQUIRE(blame_in(verdict) == "not called: 1");
  // A rank that polls the collective again and again waits.
  ranks.views[1].seen_at = 10'000'000'000;
  ranks.views[1].page.polled_at = 9'000'000'000;
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
  ranks.views[0].page.waiting_threads = 0;
  ranks.views[1].page.polled_at = 1'000'000'000;
  CHECK_FALSE(ranks.verdict());
}

TEST_CASE("independent groups of ranks get their own verdicts") {
  Ranks ranks(6);
  ranks.also_in("a", 0, 0, 2, 3, 2).also_in("a", 1, 1, 2, 2, 2);
  ranks.also_in("b", 2, 0, 2, 3, 2).also_in("b", 3, 1, 2, 2, 2);
  ranks.recv(4, 5, 1).recv(5, 4, 1);
  const auto verdicts = find_verdicts(ranks.views);
  REQUIRE(verdicts.size() == 3);
  CHECK(verdicts[0].culprits == std::vector<int>{1});
  CHECK(verdicts[1].culprits == std::vector<int>{3});
  CHECK(verdicts[2].kind == VerdictKind::each_other);
  CHECK(verdicts[2].culprits == std::vector<int>{4, 5});
}

TEST_CASE("a rank that waits for a circle from outside is not part of it") {
  Ranks ranks(4);
  ranks.recv(0, 1, 1).recv(1, 0, 1).recv(3, 0, 1).recv(2, 3, 1);
  const auto verdicts = find_verdicts(ranks.views);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].culprits == std::vector<int>{0, 1});
}

TEST_CASE("indistinguishable groups get no verdict") {
  Ranks ranks(2);
  ranks.at(0, 7, 6).at(1, 6, 6);
  ranks.also_in("world", 0, 0, 2, 3, 2);  // this is a second group with the same name and size
  CHECK_FALSE(ranks.verdict());
}

TEST_CASE("a rank that has sent its part and exited is not to blame") {
  Ranks ranks(2);
  ranks.recv(0, 1, 3).send(1, 0, 3);
  ranks.views[1].page.groups[0].transfers[0].is_done = true;
  ranks.views[1].has_ended = true;
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
}

TEST_CASE("a transfer whose entry may have been reused is not known to be missing") {
  Ranks ranks(2);
  ranks.recv(0, 1, 3).send(1, 0, 9);
  GroupView& sender = ranks.views[1].page.groups[0];
  sender.transfers[0].is_done = true;
  sender.transfers_called = 9;
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
  ranks.views[1].has_ended = true;
  CHECK(ranks.verdict()->kind == VerdictKind::ended);
  CHECK(ranks.verdict()->is_doubtful);
  sender.transfers[0].number = 2;  // the one before is shown, and is older
  CHECK_FALSE(ranks.verdict()->is_doubtful);
  ranks.views[1].has_ended = false;
  CHECK(ranks.verdict()->kind == VerdictKind::not_called);
}

TEST_CASE("ranks that send to each other in a circle wait for each other") {
  Ranks circle(3);
  circle.recv(0, 1, 1).recv(1, 2, 1).recv(2, 0, 1);
  const auto verdict = circle.verdict();
  REQUIRE(blame_in(verdict) == "wait for each other: 0, 1, 2");
  CHECK(verdict->waiting == std::vector<int>{0, 1, 2});
}

TEST_CASE("ranks that wait for each other prove a hang only if no thread can help") {
  // Rank 0 waits in one group, and rank 1 in the other.
  const auto is_proven = [](const std::function<void(RankView & view)>& change) {
    Ranks ranks(2);
    ranks.at(0, 7, 6).at(1, 6, 6).also_in("pair", 0, 0, 2, 3, 3).also_in("pair", 1, 1, 2, 4, 3);
    for (RankView& view : ranks.views) {
      view.page.calling_threads = view.page.waiting_threads = view.page.blocked_threads = 1;
      view.page.groups[static_cast<std::size_t>(view.rank)].blocked = 1;
      view.process = ProcessSample{'S', 0, 0, "", FreeThreads{}};
    }
    change(ranks.views[1]);
    REQUIRE(ranks.verdict());
    return ranks.verdict()->is_proven_circle();
  };
  CHECK(is_proven([](RankView&) {}));
  // Another thread has called before, or has called nothing so far, or nothing is known of the threads.
  CHECK_FALSE(is_proven([](RankView& view) { view.page.calling_threads = 2; }));
  CHECK_FALSE(is_proven([](RankView& view) { view.process->threads->free = 1; }));
  CHECK_FALSE(is_proven([](RankView& view) { view.process->threads.reset(); }));
  CHECK_FALSE(is_proven([](RankView& view) { view.page.continuations = 1; }));
  // The wait has a time-out of the program, or is for other ranks to join.
  CHECK_FALSE(is_proven([](RankView& view) { view.page.blocked_threads = view.page.groups[1].blocked = 0; }));
  CHECK_FALSE(is_proven([](RankView& view) {  // the page shows no threads
    view.page.calling_threads = view.page.blocked_threads = view.page.groups[1].blocked = 0;
  }));
  // The group's operation was only begun, and the thread waits for something else.
  CHECK_FALSE(is_proven([](RankView& view) { view.page.groups[1].blocked = 0; }));
}

TEST_CASE("a transfer that both sides have called is blamed on the transport, unless no thread waits for it") {
  Ranks ranks(2);
  ranks.recv(0, 1, 3).send(1, 0, 3);
  CHECK(blame_in(ranks.verdict()) == "transport: none");
  ranks.views[1].page.groups[0].transfers[0].is_done = true;  // it was sent but has not arrived
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
  ranks.views[1].page.groups[0].transfers[0].number = 2;
  CHECK(ranks.verdict()->kind == VerdictKind::not_called);
  ranks.views[0].page.groups[0].transfers[0].is_waited_for = false;
  CHECK_FALSE(ranks.verdict());
  // A rank of another node is not seen.
  Ranks alone(2);
  alone.recv(0, 1, 1);
  alone.views.pop_back();
  CHECK(alone.verdict()->is_partial);
  CHECK(alone.verdict()->culprits.empty());
}

TEST_CASE("a hang found by a stack blames a rank that moves data only if all awaited ranks move data") {
  Ranks ranks(3);
  for (RankView& view : ranks.views) {
    view.page = {};
    view.calls.clear();
    view.activity = RankActivity{.unmoved_for = 20s};
  }
  GroupView group = {"world", 0, 3, 0, 1, 1, 0, 0, 0};
  group.is_by_stack = true;
  ranks.views[0].page.groups = {group};
  REQUIRE(ranks.verdict());
  CHECK(ranks.verdict()->culprits == std::vector<int>{1, 2});
  ranks.views[2].activity->unmoved_for = 0s;
  CHECK(ranks.verdict()->culprits == std::vector<int>{1});
  ranks.views[1].activity->unmoved_for = 0s;
  CHECK(ranks.verdict()->culprits == std::vector<int>{1, 2});
}

TEST_CASE("a rank whose stack shows another wait is not a culprit, and the report says so") {
  Ranks ranks(3);
  ranks.at(0, 20, 20).at(1, 20, 20).at(2, 21, 20);
  for (RankView& view : ranks.views) {
    view.page.groups[0].identity = 5;
    view.page.groups[0].is_sampled = true;
  }
  const auto headline = [&] {
    for (const Verdict& verdict : find_verdicts(ranks.views)) {
      if (!verdict.is_by_stack) return hang_headline(verdict);
    }
    return std::string();
  };
  const std::string not_called = " not called all_reduce f32[8] ('bucket 0') (#21 of world), in which rank 2 waits";
  CHECK(headline() == "ranks 0, 1 have" + not_called + "  [DDP-H03 not called]");
  GroupView group = {"world", 0, 3, 0, 1, 1, 0, 0, 0};
  group.is_sampled = group.is_by_stack = true;
  ranks.views[0].page.groups.push_back(group);
  ranks.views[0].calls.push_back({{1, 9, 0, "recv", "", "train.py:6"}});
  CHECK(headline() ==
        "rank 1 has" + not_called +
            "; rank 0 has not called it either, and waits for rank 1 in recv at train.py:6  [DDP-H03 not called]");
}
