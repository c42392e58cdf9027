#include "launcher/run/ranks/launches.h"

#include <map>
#include <string>
#include <vector>

#include "launcher/run/ranks/root_causes.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

constexpr std::uint64_t kWorld = 77;

// Represents ranks of which NCCL's plug-in shows the launches.
class Launched {
 public:
  explicit Launched(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      RankView view;
      view.rank = rank;
      view.page.is_written = true;
      ranks_.push_back(view);
    }
  }

  // The last `called` is one that waits for all members, unless `waits_for_all` says another number.
  Launched& at(int rank, std::uint64_t called, std::uint64_t id = kWorld, int rank_in_group = -1, int size = 0) {
    GroupView group;
    group.name = id == kWorld ? "world" : "group " + std::to_string(id);
    group.identity = id;
    group.rank = rank_in_group < 0 ? rank : rank_in_group;
    group.size = size == 0 ? static_cast<int>(ranks_.size()) : size;
    group.called = group.started = group.finished = group.gpu_queued = called;
    group.is_sampled = true;
    group.launches = LaunchView{true, called, 0, -1};
    RankView& view = ranks_[static_cast<std::size_t>(rank)];
    view.page.groups.push_back(group);
    view.calls.emplace_back();
    if (called > 0) call(rank, called, "all_reduce f32[8]");
    return *this;
  }
  Launched& call(int rank, std::uint64_t number, const std::string& what, int root = -1) {
    CallView call;
    call.sequence = number;
    call.what = what;
    call.fingerprint = std::hash<std::string>()(what) | 1U;
    call.root = root;
    std::vector<CallView>& calls = ranks_[static_cast<std::size_t>(rank)].calls.back();
    std::erase_if(calls, [&](const CallView& one) { return one.sequence == number; });
    calls.push_back(call);
    return *this;
  }
  RankView& rank(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  GroupView& group(int rank) { return ranks_[static_cast<std::size_t>(rank)].page.groups.back(); }

  std::vector<RankView> completed() const {
    std::vector<RankView> ranks = ranks_;
    complete_launches(ranks, differences_of(ranks, true, {}));
    return ranks;
  }
  std::vector<std::uint64_t> finished() const {
    std::vector<std::uint64_t> numbers;
    for (const RankView& rank : completed()) numbers.push_back(rank.page.groups.back().finished);
    return numbers;
  }
  std::vector<Verdict> verdicts() const { return find_verdicts(completed()); }

 private:
  std::vector<RankView> ranks_;
};

using Numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a collective is not complete until all members have called it") {
  Launched ranks(3);
  ranks.at(0, 7).at(1, 6).at(2, 9);
  CHECK(ranks.finished() == Numbers{6, 6, 6});
  const auto found = ranks.verdicts();
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == VerdictKind::not_called);
  CHECK(found[0].culprits == std::vector{1});
  CHECK(found[0].waiting == std::vector{0, 2});
  CHECK(found[0].sequence == 7);
  CHECK(found[0].call == "all_reduce f32[8]");
}

TEST_CASE("equal launch counts give no verdict") {
  Launched ranks(3);
  ranks.at(0, 7).at(1, 7).at(2, 7);
  CHECK(ranks.finished() == Numbers{7, 7, 7});
  CHECK(ranks.verdicts().empty());
}

TEST_CASE("the root of a broadcast waits for no rank, and the other ranks wait only for the root") {
  Launched ranks(3);
  ranks.at(0, 7).at(1, 7).at(2, 6);
  ranks.group(0).launches = LaunchView{true, 6, 0, -1};
  ranks.group(1).launches = LaunchView{true, 6, 7, 0};
  CHECK(ranks.finished() == Numbers{7, 7, 6});
  CHECK(ranks.verdicts().empty());
  ranks.group(1).launches = LaunchView{true, 6, 7, 2};
  ranks.call(0, 7, "broadcast f32[8]", 2).call(1, 7, "broadcast f32[8]", 2);
  CHECK(ranks.finished() == Numbers{7, 6, 6});
  const auto found = ranks.verdicts();
  REQUIRE(found.size() == 1);
  CHECK(found[0].culprits == std::vector{2});
  CHECK(found[0].waiting == std::vector{1});
}

TEST_CASE("an exited rank is certainly missing only in collectives that need it") {
  Launched ranks(2);
  ranks.at(0, 7).at(1, 6);
  ranks.rank(1).has_ended = true;
  const auto certain = ranks.verdicts();
  REQUIRE(certain.size() == 1);
  CHECK(certain[0].kind == VerdictKind::ended);
  CHECK_FALSE(certain[0].is_doubtful);
  ranks.call(0, 7, "broadcast f32[8]", -1);
  const auto doubtful = ranks.verdicts();
  REQUIRE(doubtful.size() == 1);
  CHECK(doubtful[0].is_doubtful);
}

TEST_CASE("differing calls are reported as a doubtful verdict") {
  Launched ranks(3);
  ranks.at(0, 7).at(1, 7).at(2, 7);
  ranks.call(1, 7, "all_gather f32[8]");
  CHECK(ranks.finished() == Numbers{6, 6, 6});
  const auto found = ranks.verdicts();
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == VerdictKind::different_call);
  CHECK(found[0].culprits == std::vector{1});
  CHECK(found[0].is_doubtful);
}

TEST_CASE("a known mismatch stays until all ranks have launched many more calls") {
  Launched ranks(2);
  ranks.at(0, 7).at(1, 7);
  ranks.call(1, 7, "all_gather f32[8]");
  const auto known = differences_of(ranks.completed(), true, {});
  REQUIRE(known.size() == 1);
  CHECK(known.begin()->second == 7);
  CHECK(differences_of(ranks.completed(), false, known) == known);
  Launched later(2);
  later.at(0, 30).at(1, 40);
  CHECK(differences_of(later.completed(), false, known).empty());
  CHECK(differences_of(Launched(2).completed(), false, known).empty());
}

TEST_CASE("launch counts show nothing once a graph repeats calls") {
  Launched ranks(3);
  ranks.at(0, 7).at(1, 2).at(2, 9);
  ranks.group(1).launches->is_complete = false;
  CHECK(ranks.finished() == Numbers{7, 2, 9});
  CHECK(ranks.verdicts().empty());
}

TEST_CASE("two ranks with the same number in a communicator make it unusable") {
  Launched ranks(3);
  ranks.at(0, 7, kWorld, 0).at(1, 6, kWorld, 0).at(2, 9, kWorld, 1);
  CHECK(ranks.finished() == Numbers{7, 6, 9});
  CHECK(ranks.verdicts().empty());
}

TEST_CASE("the completed calls of ten thousand ranks are found quickly") {
  constexpr int kMany = 10'000;
  Launched ranks(kMany);
  for (int rank = 0; rank < kMany; ++rank) ranks.at(rank, rank == 77 ? 6 : 7, kWorld, kMany - 1 - rank);
  const auto completed = ranks.completed();
  CHECK(std::ranges::all_of(completed, [](const RankView& rank) { return rank.page.groups[0].finished == 6; }));
}

TEST_CASE("before NCCL 2.26 the size of a communicator is known only from its members") {
  Launched ranks(3);
  ranks.at(0, 7, kWorld, 0, 1).at(1, 7, kWorld, 1, 2).at(2, 6, kWorld, 2, 3);
  const auto found = ranks.verdicts();
  REQUIRE(found.size() == 1);
  CHECK(found[0].group_size == 3);
  CHECK_FALSE(found[0].is_partial);
}

TEST_CASE("a communicator without a name is named by its ranks") {
  Launched ranks(3);
  ranks.at(0, 7, kWorld, 1, 2).at(2, 6, kWorld, 0, 2);
  ranks.group(0).launches->is_named = false;
  ranks.group(2).launches->is_named = false;
  const auto found = ranks.verdicts();
  REQUIRE(found.size() == 1);
  CHECK(found[0].group == "ranks 0, 2");
  ranks.group(0).size = 3;  // one of them is not known
  CHECK(ranks.verdicts().at(0).group == "world");
}

TEST_CASE("the group of the missing rank in a grid is named") {
  // Rows {0 1 2 3} and {4 5 6 7}, and columns {0 4}, {1 5}, {2 6}, {3 7}. Rank 6 is missing in its row, so rank 2 waits
  // for it in the column.
  Launched ranks(8);
  for (int rank = 0; rank < 8; ++rank) {
    const std::uint64_t row = 100 + static_cast<std::uint64_t>(rank / 4);
    const std::uint64_t column = 200 + static_cast<std::uint64_t>(rank % 4);
    ranks.at(rank, rank / 4 == 1 && rank != 6 ? 5 : 4, row, rank % 4, 4);
    ranks.at(rank, rank == 2 ? 8 : 7, column, rank / 4, 2);
  }
  const auto found = ranks.verdicts();
  REQUIRE(found.size() == 2);
  for (const Verdict& verdict : found) CHECK(verdict.culprits == std::vector{6});
}

TEST_CASE("a rank that waits in one group does not delay those that wait for it in another") {
  Launched ranks(4);
  // Rank 1 has not called in its row. Rank 0 waits for it there, and rank 2 waits for rank 0 in the column.
  ranks.at(0, 5, 100, 0, 2).at(1, 4, 100, 1, 2);
  ranks.at(0, 7, 200, 0, 2).at(2, 8, 200, 1, 2);
  const auto found = ranks.verdicts();
  REQUIRE(found.size() == 1);
  CHECK(found[0].culprits == std::vector{1});
  CHECK(found[0].group == "group 100");
}

TEST_CASE("a receive waits for its send, and a send may complete earlier") {
  const auto transfer = [](bool is_send, int peer, std::uint64_t number) {
    TransferView view;
    view.is_send = is_send;
    view.peer = peer;
    view.number = number;
    view.what = "f32[8]";
    return view;
  };
  Launched ranks(3);
  ranks.at(0, 0).at(1, 0).at(2, 0);
  // Rank 0 sends to 1, which sends to 2. Rank 1 has not sent the second one.
  ranks.group(0).transfers = {transfer(true, 1, 5)};
  ranks.group(0).transfers_called = 5;
  ranks.group(1).transfers = {transfer(false, 0, 2), transfer(true, 2, 1)};
  ranks.group(1).transfers_called = 3;
  ranks.group(2).transfers = {transfer(false, 1, 2)};
  ranks.group(2).transfers_called = 2;
  const auto found = ranks.verdicts();
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == VerdictKind::not_called);
  CHECK(found[0].culprits == std::vector{1});
  CHECK(found[0].waiting == std::vector{2});
  CHECK(found[0].sequence == 2);
  // With too many peers, the page does not show all of them.
  ranks.group(1).transfers = {transfer(false, 0, 2)};
  ranks.group(1).transfers_called = 30;
  CHECK(ranks.verdicts().empty());
}

TEST_CASE("complete_launches() changes no counter of a group that does not count launches") {
  std::vector<RankView> ranks(1);
  ranks[0].page.groups.emplace_back();
  ranks[0].page.groups[0].called = 5;
  ranks[0].page.groups[0].finished = 4;
  const auto before = ranks[0].page;
  complete_launches(ranks, {});
  CHECK(ranks[0].page == before);
}

TEST_CASE("a kernel that does not end is named if kernels are traced") {
  Launched ranks(3);
  ranks.at(0, 8).at(1, 7).at(2, 8);
  const auto follow = [&](int rank, std::uint64_t from, std::uint64_t started, std::uint64_t finished) {
    GroupView& group = ranks.group(rank);
    group.launches->kernels_from = from;
    group.gpu_started = started;
    group.gpu_finished = finished;
  };
  // The kernels of #7 have begun on all GPUs, and ended on two of them. Both have begun #8.
  follow(0, 3, 8, 7);
  follow(1, 3, 7, 6);
  follow(2, 3, 8, 7);
  CHECK(ranks.finished() == Numbers{7, 6, 7});
  const auto verdicts = ranks.verdicts();
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].kind == VerdictKind::transport);
  CHECK(verdicts[0].sequence == 7);
  CHECK(verdicts[0].waiting == std::vector<int>{0, 1, 2});  // two of them in #8
  CHECK(verdicts[0].finished == std::vector<int>{0, 2});
}

TEST_CASE("a kernel that one GPU has not begun makes that GPU the culprit") {
  Launched ranks(3);
  for (int rank = 0; rank < 3; ++rank) {
    ranks.at(rank, 7);
    ranks.group(rank).launches->kernels_from = 1;
    ranks.group(rank).gpu_started = rank == 2 ? 6 : 7;
    ranks.group(rank).gpu_finished = 6;
  }
  const auto verdicts = ranks.verdicts();
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].kind == VerdictKind::gpu_behind);
  CHECK(verdicts[0].culprits == std::vector<int>{2});
}

TEST_CASE("a kernel that no GPU reports counts as done") {
  Launched ranks(2);
  for (int rank = 0; rank < 2; ++rank) {
    ranks.at(rank, 9);
    ranks.group(rank).launches->kernels_from = 1;
    ranks.group(rank).gpu_started = ranks.group(rank).gpu_finished = 5;  // NCCL does not follow #6 to #9
  }
  CHECK(ranks.finished() == Numbers{9, 9});
  CHECK(ranks.verdicts().empty());
  // One rank has followed its kernels only since #8.
  ranks.group(0).gpu_started = ranks.group(0).gpu_finished = 7;
  ranks.group(1).launches->kernels_from = 8;
  ranks.group(1).gpu_started = ranks.group(1).gpu_finished = 0;
  CHECK(ranks.finished() == Numbers{9, 9});
}
