#include "launcher/run/ranks/waits.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/run/ranks/group_members.h"
#include "launcher/run/ranks/root_causes.h"
#include "launcher/run/watchdog/verdict_text.h"
#include "support/catch.h"
#include "support/group_ranks.h"

using namespace ddp::launcher;

TEST_CASE("ranks that do not wait get no verdict") {
  CHECK(find_verdicts({}).empty());
  CHECK_FALSE(Ranks(2).verdict());
  CHECK_FALSE(Ranks(2).at(0, 5, 5).at(1, 9, 9).verdict());
}

TEST_CASE("a rank that has not called the collective is the culprit") {
  const auto verdict = Ranks(4).at(0, 7, 6).at(1, 6, 6).at(2, 7, 6).at(3, 8, 6).verdict();
  REQUIRE(blame_in(verdict) == "not called: 1");
  CHECK(verdict->group == "world");
  CHECK(verdict->group_size == 4);
  CHECK(verdict->sequence == 7);
  CHECK(verdict->call == "all_reduce f32[8] ('bucket 0')");
  CHECK(verdict->waiting == std::vector<int>{0, 2, 3});
}

TEST_CASE("a rank that has finished the awaited collective is not a culprit") {
  // The root of a broadcast may continue immediately.
  const auto verdict = Ranks(3).at(0, 7, 7).at(1, 6, 6).at(2, 7, 6).verdict();
  REQUIRE(blame_in(verdict) == "not called: 1");
  CHECK(verdict->waiting == std::vector<int>{2});
}

TEST_CASE("a collective that all ranks have called but that does not advance is blamed on the transport") {
  const auto verdict = Ranks(3).at(0, 7, 6).at(1, 7, 6).at(2, 7, 7).verdict();
  REQUIRE(blame_in(verdict) == "transport: none");
  CHECK(verdict->waiting == std::vector<int>{0, 1});
}

TEST_CASE("a rank that has called but not started the collective is the culprit") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 7, 6).at(2, 7, 6);
  ranks.views[1].page.groups[0].started = 6;
  const auto verdict = ranks.verdict();
  REQUIRE(blame_in(verdict) == "not called: 1");
  CHECK(verdict->is_held);
  CHECK(verdict->waiting == std::vector<int>{0, 2});
  // A thread that waits may wait in another group. If no rank has begun the call, no rank waits in it.
  for (RankView& view : ranks.views) view.page.groups[0].started = 6;
  CHECK_FALSE(ranks.verdict());
  for (RankView& view : ranks.views) view.page.groups[0].blocked = 1;
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
}

TEST_CASE("the verdict for a group that spans other nodes says that not all ranks are known") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 7, 6).at(2, 7, 7);
  CHECK_FALSE(ranks.verdict()->is_partial);
  for (RankView& view : ranks.views) view.page.groups[0].size = 6;
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
  CHECK(ranks.verdict()->is_partial);
}

TEST_CASE("a recorder that cannot see what GPUs have begun blames no GPU") {
  Ranks ranks(2);
  ranks.at(0, 7, 6).at(1, 7, 6).gpu(0, 7, 6, 6).gpu(1, 7, 6, 6);
  CHECK(ranks.verdict()->kind == VerdictKind::gpu_behind);
  for (RankView& view : ranks.views) view.page.groups[0].is_sampled = true;
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
}

TEST_CASE("GPUs that have not begun a collective of all ranks are the culprits") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 9, 6).at(2, 7, 6).gpu(0, 7, 7, 6).gpu(1, 9, 6, 6).gpu(2, 7, 7, 7);
  const auto verdict = ranks.verdict();
  REQUIRE(blame_in(verdict) == "GPU behind: 1");
  CHECK(hang_headline(*verdict) ==
        "the GPU of rank 1 has not started all_reduce f32[8] ('bucket 0') (#7 of world), which all ranks have called: "
        "earlier work in its stream does not complete  [DDP-H10 GPU behind]");
  CHECK(verdict->waiting == std::vector<int>{0, 1, 2});
  // All GPUs are in the collective.
  CHECK(ranks.gpu(1, 9, 7, 6).verdict()->kind == VerdictKind::transport);
  // A GPU that reports nothing is not behind. Neither is a GPU whose stream has not got the collective yet.
  CHECK(ranks.gpu(1, 0, 0, 0).verdict()->kind == VerdictKind::transport);
  CHECK(ranks.gpu(1, 6, 6, 6).verdict()->kind == VerdictKind::transport);
  // More direct causes come first.
  ranks.gpu(1, 9, 6, 6).at(2, 6, 6);
  CHECK(ranks.verdict()->kind == VerdictKind::not_called);
}

TEST_CASE("a rank that exited before init is the culprit of those that wait there") {
  Ranks ranks(3);
  const auto awaits = [&](std::size_t rank, int entered, int world) {
    ranks.views[rank].page.worlds_entered = entered;
    ranks.views[rank].page.awaited_world = world;
  };
  awaits(0, 2, 3);
  awaits(1, 1, 0);
  awaits(2, 1, 0);
  CHECK_FALSE(ranks.verdict());
  ranks.views[1].has_ended = true;
  const auto verdict = ranks.verdict();
  REQUIRE(blame_in(verdict) == "ended: 1");
  CHECK(verdict->waiting == std::vector<int>{0});
  CHECK(hang_headline(*verdict) == "rank 1 has exited, and rank 0 waits for it in init()  [DDP-H01 ended]");
  // The rank had entered init(), and has left since.
  awaits(1, 2, 0);
  CHECK_FALSE(ranks.verdict());
  // This is not the world of all ranks.
  awaits(1, 1, 0);
  awaits(0, 2, 2);
  CHECK_FALSE(ranks.verdict());
}

TEST_CASE("an exited or stopped rank is a culprit before one that has not called") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 6, 6).at(2, 6, 6);
  ranks.views[2].process->state = 'T';
  CHECK(blame_in(ranks.verdict()) == "stopped: 2");
  ranks.views[1].has_ended = true;
  CHECK(blame_in(ranks.verdict()) == "ended: 1");
}

TEST_CASE("a rank that is stopped within a collective is the culprit although it has called") {
  Ranks ranks(2);
  ranks.at(0, 7, 6).at(1, 7, 6);
  ranks.views[1].process->state = 't';
  const auto verdict = ranks.verdict();
  CHECK(verdict->kind == VerdictKind::stopped);
  CHECK(verdict->culprits == std::vector<int>{1});
  CHECK(hang_headline(*verdict) ==
        "rank 1 is stopped, and rank 0 waits in all_reduce f32[8] ('bucket 0') (#7 of world)  [DDP-H02 stopped]");
  // The other rank has continued.
  ranks.at(0, 7, 7);
  CHECK(hang_headline(*ranks.verdict()) ==
        "rank 1 is stopped in all_reduce f32[8] ('bucket 0') (#7 of world)  [DDP-H02 stopped]");
}

TEST_CASE("a rank that has left or never entered the world is the culprit") {
  Ranks ranks(3);
  ranks.at(0, 1, 0).at(1, 1, 0);
  ranks.views[2].page.groups.clear();
  ranks.views[2].calls.clear();
  CHECK(blame_in(ranks.verdict()) == "not called: 2");
  ranks.views[2].has_ended = true;
  CHECK(ranks.verdict()->kind == VerdictKind::ended);
  // If a group spans several nodes, the other ranks may be anywhere.
  for (RankView& view : ranks.views) {
    if (!view.page.groups.empty()) view.page.groups[0].size = 4;
  }
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
}

TEST_CASE("the first differing call shows a mismatch, and the minority are the culprits") {
  Ranks ranks(3);
  ranks.at(0, 7, 5).at(1, 7, 5).at(2, 7, 5);
  // Rank 2 already differs at #6, and so do all its later fingerprints.
  ranks.views[2].calls[0][2] = call_number(6, 9, "all_reduce f32[4]");
  ranks.views[2].calls[0][3] = call_number(7, 10);
  const auto verdict = ranks.verdict();
  REQUIRE(blame_in(verdict) == "different arguments: 2");
  REQUIRE(verdict->sides.size() == 2);
  CHECK(verdict->sides[0].rank == 0);
  CHECK(verdict->sides[0].call.sequence == 6);
  CHECK(verdict->sides[1].rank == 2);
  CHECK(verdict->sides[1].call.what == "all_reduce f32[4]");
  ranks.views[2].calls[0][2] = call_number(6, 9, "broadcast f32[8]");
  CHECK(ranks.verdict()->kind == VerdictKind::different_call);
  ranks.views[2].calls[0][2] = call_number(6, 9, "all_reduce f32[8]", "bucket 1");
  CHECK(ranks.verdict()->kind == VerdictKind::different_call);
}

TEST_CASE("a chain of waits through groups leads to the last group's culprit") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 6, 6).at(2, 7, 6);                            // ranks 0 and 2 wait for rank 1
  ranks.also_in("pair", 1, 0, 2, 3, 2).also_in("pair", 2, 1, 2, 2, 2);  // rank 1 waits for rank 2
  auto verdict = ranks.verdict();
  REQUIRE(verdict);
  CHECK(verdict->kind == VerdictKind::each_other);
  Ranks chain(4);
  chain.at(0, 7, 6).at(1, 6, 6).at(2, 7, 6).at(3, 7, 6);
  chain.also_in("pair", 1, 0, 2, 3, 2).also_in("pair", 3, 1, 2, 2, 2);
  chain.views[3].page.groups[0].finished = 7;  // rank 3 does not wait in the world
  verdict = chain.verdict();
  REQUIRE(verdict);
  CHECK(verdict->kind == VerdictKind::not_called);
  CHECK(verdict->group == "pair");
  CHECK(verdict->culprits == std::vector<int>{3});
}

TEST_CASE("a rank that did its part of a broadcast and waits in the next operation waits for its peers") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 6, 6).at(2, 7, 6);  // ranks 0 and 2 wait for rank 1
  ranks.also_in("pair", 0, 0, 2, 5, 3).also_in("pair", 1, 1, 2, 5, 4);
  ranks.views[0].page.groups[1].started = 4;  // rank 0 still receives
  const auto verdict = ranks.verdict();
  REQUIRE(verdict);
  CHECK(verdict->kind == VerdictKind::transport);
  CHECK(verdict->group == "pair");
  CHECK(verdict->waiting == std::vector<int>{0, 1});
}

TEST_CASE("an operation that a continuation delays waits for no other rank") {
  Ranks ranks(2);
  ranks.at(0, 7, 6).at(1, 6, 6);
  ranks.views[0].page.groups[0].started = 6;
  ranks.views[0].page.continuations = 1;
  CHECK_FALSE(ranks.verdict());
  // Another operation may have begun although a continuation runs.
  ranks.views[0].page.groups[0].started = 7;
  CHECK(ranks.verdict());
}

TEST_CASE("pages without calls give a verdict without a description of the call") {
  Ranks ranks(2);
  ranks.at(0, 7, 6).at(1, 6, 6);
  for (RankView& view : ranks.views) view.calls.clear();
  CHECK(ranks.verdict()->kind == VerdictKind::not_called);
  CHECK(ranks.verdict()->call.empty());
}

TEST_CASE("all ranks are culprits if equally many called each operation") {
  Ranks ranks(4);
  ranks.at(0, 7, 6).at(1, 6, 6).at(2, 7, 6).at(3, 6, 6);
  ranks.views[2].calls[0][3] = call_number(7, 9, "broadcast f32[8]");
  auto verdict = find_difference(ranks.views);
  REQUIRE(verdict);
  CHECK(verdict->culprits == std::vector<int>{0, 2});
  CHECK(verdict->is_open);  // ranks 1 and 3 may show which rank is wrong
  ranks.at(1, 7, 6);
  verdict = find_difference(ranks.views);
  CHECK(verdict->culprits == std::vector<int>{2});
  CHECK_FALSE(verdict->is_open);

  Ranks two(2);
  two.at(0, 7, 6).at(1, 7, 6);
  two.views[1].calls[0][3] = call_number(7, 9, "broadcast f32[8]");
  verdict = find_difference(two.views);
  REQUIRE(verdict);
  CHECK(verdict->culprits == std::vector<int>{0, 1});
  CHECK_FALSE(verdict->is_open);
}

TEST_CASE("a mismatch is found after the exit of ranks that called") {
  Ranks ranks(3);
  ranks.at(0, 8, 6).at(1, 7, 6).at(2, 9, 6);
  ranks.views[2].calls[0][1] = call_number(7, 9, "all_reduce f32[4]");
  for (std::uint64_t number : {8, 9}) ranks.views[2].calls[0][number - 6] = call_number(number, number + 5);
  for (RankView& view : ranks.views) {
    view.has_ended = true;
    view.page.groups[0].is_left = true;
  }
  CHECK_FALSE(ranks.verdict());
  const auto verdict = find_difference(ranks.views);
  REQUIRE(blame_in(verdict) == "different arguments: 2");
  CHECK(verdict->sequence == 7);
  CHECK(verdict->waiting.empty());
  std::vector<std::pair<int, std::uint64_t>> around;
  for (const RankCall& call : verdict->around) around.emplace_back(call.rank, call.call.sequence);
  CHECK(around == std::vector<std::pair<int, std::uint64_t>>{{0, 5}, {0, 6}, {0, 8}, {2, 8}, {2, 9}});
  CHECK_FALSE(find_difference(Ranks(3).at(0, 7, 6).at(1, 6, 6).views));
}

TEST_CASE("a rank that has exited has not finished its last call") {
  Ranks ranks(1);
  CHECK_FALSE(find_unfinished(ranks.views[0], false));
  CHECK_FALSE(find_unfinished(ranks.at(0, 7, 7).views[0], false));
  const auto verdict = find_unfinished(ranks.at(0, 7, 6).views[0], false);
  REQUIRE(blame_in(verdict) == "ended: 0");
  CHECK(verdict->sequence == 7);
  ranks.views[0].page.groups[0].is_left = true;  // the rank failed, which it reports in another way
  CHECK_FALSE(find_unfinished(ranks.views[0], false));
  CHECK(find_unfinished(ranks.views[0], true)->sequence == 7);
  ranks.views[0].page.groups[0].is_left = false;
  ranks.views[0].page.groups[0].is_sampled = true;  // a reader saw it some time before the rank ended
  CHECK_FALSE(find_unfinished(ranks.views[0], false));
  CHECK_FALSE(find_unfinished(ranks.views[0], true));  // it may have called much since
  ranks.views[0].page.groups[0].is_final = true;
  CHECK(find_unfinished(ranks.views[0], true)->sequence == 7);
}

TEST_CASE("a rank that waits outside of collectives is the culprit") {
  Ranks ranks(3);
  const auto wait_in = [&](const std::vector<std::string>& functions) {
    for (std::size_t i = 0; i < functions.size(); ++i) ranks.views[i].process->waits_in = functions[i];
    return find_odd_ranks(ranks.views);
  };
  CHECK(wait_in({"futex_do_wait", "hrtimer_nanosleep", "futex_wait_queue"}) == std::vector<int>{1});
  CHECK(wait_in({"ep_poll", "__do_sys_pause", "poll_schedule_timeout"}) == std::vector<int>{1});
  CHECK(wait_in({"", "do_nanosleep", ""}) == std::vector<int>{1});  // the others wait for a GPU
  CHECK(wait_in({"ep_poll", "futex_do_wait", "ep_poll"}).empty());
  CHECK(wait_in({"do_nanosleep", "do_nanosleep", "do_nanosleep"}).empty());
  CHECK(wait_in({"ep_poll", "do_nanosleep", "some_driver"}).empty());  // the driver's function is unknown
  ranks.views[2].has_ended = true;
  CHECK(wait_in({"ep_poll", "do_nanosleep", "some_driver"}) == std::vector<int>{1});
  ranks.views[0].process.reset();
  CHECK(find_odd_ranks(ranks.views).empty());
}

TEST_CASE("stacks name the ranks that are in no collective, without a sequence number") {
  Ranks ranks(3);
  const auto waits_in = [&](int rank, const std::string& operation, std::uint64_t fingerprint) {
    RankView& view = ranks.views[static_cast<std::size_t>(rank)];
    GroupView group = {"world", rank, 3, 0, 1, 1, 0, 0, 0};
    group.is_sampled = group.is_by_stack = true;
    view.page.groups = {group};
    view.calls = {{{1, fingerprint, 0, operation, "", "h.py:26"}}};
  };
  for (RankView& view : ranks.views) {
    view.page = {};
    view.calls.clear();
  }
  CHECK_FALSE(ranks.verdict());
  waits_in(0, "all_reduce", 7);
  waits_in(2, "all_reduce", 7);
  auto verdict = ranks.verdict();
  REQUIRE(verdict);
  CHECK(verdict->kind == VerdictKind::not_called);
  CHECK(verdict->is_by_stack);
  CHECK(hang_headline(*verdict) ==
        "rank 1 is in no collective; ranks 0, 2 wait in all_reduce at h.py:26  [DDP-H03 not called]");
  // Calls that differ may be of different groups. So nothing is certain, and no job fails for it.
  waits_in(1, "barrier", 8);
  verdict = ranks.verdict();
  REQUIRE(blame_in(verdict) == "different collective: 1");
  CHECK(hang_headline(*verdict) ==
        "rank 1 waits in a different collective from the other ranks: rank 0 in all_reduce at h.py:26, rank 1 in "
        "barrier at "
        "h.py:26  [DDP-H04 different collective]");
  CHECK_FALSE(find_difference(ranks.views));
  // A message is between two ranks.
  waits_in(0, "send", 5);
  waits_in(1, "recv", 6);
  verdict = ranks.verdict();
  REQUIRE(verdict);
  CHECK(verdict->kind == VerdictKind::each_other);
  CHECK_FALSE(verdict->is_proven_circle());
  CHECK(hang_headline(*verdict).starts_with("ranks 0-2 wait for each other: rank "));
  // A rank that waits for its GPU may wait for a collective, and its GPU may also compute.
  waits_in(0, "GPU synchronization", 9);
  waits_in(1, "GPU synchronization", 9);
  CHECK_FALSE(ranks.verdict());
  ranks.views[2].page = {};
  ranks.views[2].calls.clear();
  verdict = ranks.verdict();
  REQUIRE(verdict);
  CHECK(hang_headline(*verdict) ==
        "rank 2 is in no collective; ranks 0, 1 wait in GPU synchronization at h.py:26  [DDP-H03 not called]");
  ranks.views[1].has_ended = true;
  CHECK_FALSE(find_unfinished(ranks.views[1], true));
}

TEST_CASE("a call that cannot be compared never counts as a mismatch") {
  Ranks ranks(3);
  ranks.at(0, 7, 6).at(1, 7, 6).at(2, 7, 6);
  ranks.views[0].calls[0].back() = call_number(7, 0, "coalesced");
  CHECK(ranks.verdict()->kind == VerdictKind::transport);
  ranks.views[1].calls[0].back() = call_number(7, 8, "broadcast f32[8]");
  CHECK(blame_in(ranks.verdict()) == "different collective: 1, 2");
}

TEST_CASE("for an exited rank only data read after its exit are certain") {
  enum class Page : std::uint8_t { exact, sampled, final };
  struct Row {
    const char* call;
    int root;
    Page page;                  // of rank 2, which has ended
    std::uint64_t called;       // by rank 2
    std::uint64_t finished;     // by rank 2
    std::uint64_t late_called;  // by rank 1; rank 0 waits in 7
    VerdictKind kind;
    std::vector<int> culprits;
    bool is_doubtful;
  };
  using enum VerdictKind;
  const std::vector<Row> rows = {
      // A rank that has done its part of a gather may leave.
      {"gather root 0 f32[4]", 0, Page::final, 7, 7, 6, not_called, {1}, false},
      {"gather root 0 f32[4]", 0, Page::exact, 7, 7, 6, not_called, {1}, false},
      // PyTorch has not marked its part as finished yet.
      {"gather root 0 f32[4]", 0, Page::final, 7, 6, 6, not_called, {1}, false},
      {"gather root 0 f32[4]", 0, Page::final, 7, 6, 7, ended, {2}, true},
      // The reader saw it long before its end.
      {"gather root 0 f32[4]", 0, Page::sampled, 4, 4, 6, not_called, {1}, false},
      {"gather root 0 f32[4]", 0, Page::sampled, 4, 4, 7, ended, {2}, true},
      {"all_reduce f32[8]", -1, Page::sampled, 4, 4, 7, ended, {2}, true},
      // It never called what needs all ranks, or the root.
      {"all_reduce f32[8]", -1, Page::final, 6, 6, 6, ended, {2}, false},
      {"all_reduce f32[8]", -1, Page::exact, 6, 6, 6, ended, {2}, false},
      {"all_reduce f32[8]", -1, Page::exact, 7, 6, 7, ended, {2}, false},
      {"gather root 0 f32[4]", 0, Page::final, 6, 6, 6, ended, {2}, false},
      {"broadcast root 2 f32[4]", 2, Page::exact, 6, 6, 6, ended, {2}, false},
      // Rank 0 waits for the root, which is late. The end of rank 2 is not what it waits for.
      {"broadcast root 1 f32[4]", 1, Page::exact, 6, 6, 6, not_called, {1, 2}, false},
      // The root is unknown, but all others have called.
      {"broadcast f32[4]", -1, Page::final, 6, 6, 6, not_called, {1, 2}, false},
      {"broadcast f32[4]", -1, Page::final, 6, 6, 7, ended, {2}, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.call, static_cast<int>(row.page), row.called, row.late_called);
    Ranks ranks(3);
    ranks.at(0, 7, 6).at(1, row.late_called, 6).at(2, row.called, row.finished);
    for (RankView& view : ranks.views) {
      view.page.groups[0].is_sampled = row.page != Page::exact;
      for (CallView& call : view.calls[0]) {
        call.what = row.call;
        call.root = row.root;
      }
    }
    ranks.views[2].has_ended = true;
    ranks.views[2].page.groups[0].is_final = row.page == Page::final;
    const auto verdict = ranks.verdict();
    REQUIRE(verdict);
    CHECK(verdict->kind == row.kind);
    CHECK(verdict->culprits == row.culprits);
    CHECK(verdict->is_doubtful == row.is_doubtful);
  }
}

TEST_CASE("a rank in another PyTorch world is not missing") {
  Ranks ranks(2);
  ranks.at(0, 7, 6).at(1, 7, 6);
  for (int rank : {0, 1}) {
    GroupView& group = ranks.views[static_cast<std::size_t>(rank)].page.groups[0];
    group.is_sampled = true;
    group.identity = static_cast<std::uint64_t>(rank) + 1;
  }
  for (const Verdict& verdict : find_verdicts(ranks.views)) {
    CHECK(verdict.is_partial);
    CHECK(verdict.culprits.empty());
  }
}
