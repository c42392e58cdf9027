#include "torch_reader/page_writer.h"

#include <cstring>
#include <memory>
#include <string>

#include "launcher/run/ranks/worker_page.h"
#include "support/catch.h"

using namespace ddp::torch_reader;
using ddp::launcher::GroupView;
using ddp::launcher::page_version;
using ddp::launcher::read_calls;
using ddp::launcher::read_page;
using ddp::wire::StatusPageLayout;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr Moment kNow{100 * kSecond, 5000 * kSecond};

std::unique_ptr<StatusPageLayout> zeros() {
  auto page = std::make_unique<StatusPageLayout>();
  std::memset(static_cast<void*>(page.get()), 0, sizeof(StatusPageLayout));
  return page;
}

RecordedGroup group_of(std::uint64_t called, std::uint64_t finished, std::uint64_t identity = 5) {
  RecordedGroup group;
  group.line = {"0", "", 1, 2, {}, 0};
  group.identity = identity;
  group.called = called;
  group.finished = finished;
  for (std::uint64_t i = called > 16 ? called - 15 : 1; i <= called; ++i) {
    group.calls.push_back({i, "all_reduce", "f32", 8, 32, kNow.realtime - kSecond, 0, 3});
  }
  return group;
}

}  // namespace

TEST_CASE("recorded calls appear on the page as if the runtime had written them") {
  const auto page = zeros();
  REQUIRE(write_to_page(*page, 7, std::vector{group_of(20, 19)}, kNow));
  const auto view = read_page(*page, kNow.monotonic + kSecond);
  CHECK(view.writer == 7);
  CHECK(view.phase == ddp::launcher::RankPhase::training);
  REQUIRE(view.groups.size() == 1);
  const GroupView& world = view.groups[0];
  CHECK(world.name == "world");
  CHECK((world.rank == 1 && world.size == 2));
  CHECK((world.called == 20 && world.started == 20 && world.finished == 19));
  CHECK(world.is_sampled);
  CHECK_FALSE(world.is_left);
  const auto calls = read_calls(*page, 0);
  REQUIRE(calls.size() == 16);
  CHECK(calls.back().sequence == 20);
  CHECK(describe(calls.back()) == "all_reduce f32[8]");
  CHECK(calls.back().called_at == kNow.monotonic - kSecond);
}

TEST_CASE("the final recording of a program is marked as final, and no thread of it waits any more") {
  const auto page = zeros();
  RecordedGroup group = group_of(20, 19);
  group.calls.back().is_root = true;
  REQUIRE(write_to_page(*page, 7, std::vector{group_of(18, 18)}, kNow));
  const std::uint64_t before = page_version(*page, kNow.monotonic);
  CHECK_FALSE(read_page(*page, kNow.monotonic).groups.at(0).is_final);
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow, /*is_last=*/true));
  const GroupView world = read_page(*page, kNow.monotonic + 100 * kSecond).groups.at(0);
  CHECK((world.is_final && world.is_sampled && world.is_left));
  CHECK((world.called == 20 && world.finished == 19));
  CHECK(page_version(*page, kNow.monotonic) != before);
  CHECK(read_calls(*page, 0).back().root == 1);
  CHECK(read_calls(*page, 0).front().root == -1);
}

TEST_CASE("the page holds only the newest calls of a long recording") {
  const auto page = zeros();
  RecordedGroup group = group_of(40, 40);
  group.calls.insert(group.calls.begin(), {24, "broadcast", "f32", 8, 0, kNow.realtime - 2 * kSecond});
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  const auto calls = read_calls(*page, 0);
  REQUIRE(calls.size() == 16);
  CHECK((calls.front().sequence == 25 && calls.back().sequence == 40));
}

TEST_CASE("an operation without a name on the page is shown by PyTorch's name") {
  const auto page = zeros();
  RecordedGroup group = group_of(1, 0);
  group.calls[0].operation = "_all_gather_base";
  group.calls[0].type = "ComplexFloat";
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  CHECK(describe(read_calls(*page, 0).at(0)) == "? ?[8] ('_all_gather_base')");
}

TEST_CASE("a group that was not sampled for long has no waiting threads") {
  const auto page = zeros();
  REQUIRE(write_to_page(*page, 7, std::vector{group_of(2, 1)}, kNow));
  const std::uint64_t late = kNow.monotonic + 60 * kSecond;
  CHECK(read_page(*page, late).groups.at(0).is_left);
  CHECK(page_version(*page, late) != page_version(*page, kNow.monotonic));
  REQUIRE(write_to_page(*page, 7, std::vector{group_of(2, 1)}, {late, kNow.realtime}));
  CHECK_FALSE(read_page(*page, late).groups.at(0).is_left);
}

TEST_CASE("a group whose thread only listens while others train has no waiting threads") {
  const auto page = zeros();
  std::vector<RecordedGroup> groups{group_of(1, 0, 5), group_of(200, 200, 6)};
  const auto listens = [&] {
    write_to_page(*page, 7, groups, kNow);
    return read_page(*page, kNow.monotonic).groups[0].is_left;
  };
  CHECK_FALSE(listens());
  groups[1].calls.back().made_at = kNow.realtime;
  CHECK(listens());
  groups[0].calls.back().made_at = kNow.realtime - 60 * kSecond;
  groups[1].calls.back().made_at = kNow.realtime - 20 * kSecond;
  CHECK_FALSE(listens());
}

TEST_CASE("a group keeps its place until the page is full") {
  const auto page = zeros();
  std::vector<RecordedGroup> groups;
  for (std::uint64_t i = 1; i <= 40; ++i) groups.push_back(group_of(i, i, i));
  for (int i = 0; i < 2; ++i) REQUIRE(write_to_page(*page, 7, groups, kNow));
  CHECK(page->places == ddp::wire::kPageGroups);
  CHECK(page->groups_not_shown == 8);
  CHECK(page->groups[3].identity == 4);
  CHECK(page->groups[3].called == 4);
}

TEST_CASE("the page of another process or of a program with the runtime is left alone") {
  const auto page = zeros();
  page->writer = 8;
  CHECK_FALSE(write_to_page(*page, 7, std::vector{group_of(2, 1)}, kNow));
  CHECK(page->places == 0);
  page->writer = 7;
  page->groups[0].in_use = ddp::wire::kPageInUse;
  CHECK_FALSE(write_to_page(*page, 7, std::vector{group_of(2, 1)}, kNow));
  page->groups[0].in_use = ddp::wire::kPageFree;
  page->worlds_entered = 1;
  CHECK_FALSE(write_to_page(*page, 7, std::vector{group_of(2, 1)}, kNow));
  CHECK(page->worker.phase == 0);
}

TEST_CASE("write_to_page() writes GPU counters for an NCCL recorder only, where started means finished") {
  const auto page = zeros();
  RecordedGroup group = group_of(20, 18);
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  CHECK(read_page(*page, kNow.monotonic).groups.at(0).gpu_queued == 0);
  group.recorder = Recorder::nccl;
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  const GroupView view = read_page(*page, kNow.monotonic).groups.at(0);
  CHECK((view.gpu_queued == 20 && view.gpu_started == 18 && view.gpu_finished == 18));
}

TEST_CASE("a group that is not current keeps its state, which soon counts as outdated") {
  const auto page = zeros();
  RecordedGroup group = group_of(20, 19);
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  group.is_current = false;
  group.called = 30;
  const Moment later{kNow.monotonic + 10 * kSecond, kNow.realtime + 10 * kSecond};
  REQUIRE(write_to_page(*page, 7, std::vector{group}, later));
  const GroupView view = read_page(*page, later.monotonic).groups.at(0);
  CHECK(view.called == 20);
  CHECK(view.is_left);
}

TEST_CASE("a finished call is no longer compared") {
  const auto page = zeros();
  RecordedGroup group = group_of(2, 1);
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  CHECK(read_calls(*page, 0).back().fingerprint == 3);
  group.calls.back().fingerprint = 0;
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  CHECK(read_calls(*page, 0).back().fingerprint == 0);
}

TEST_CASE("the counters of a traced group are current") {
  const auto page = zeros();
  REQUIRE(write_to_page(*page, 7, std::vector{group_of(20, 19)}, kNow));
  CHECK_FALSE(read_page(*page, kNow.monotonic).groups[0].is_live);
  const Moment later{kNow.monotonic + kSecond / 10, kNow.realtime + kSecond / 10};
  write_counters(*page, 5, {.sequence = 22, .made_at = kNow.realtime}, 21, later);
  write_counters(*page, 6, {.sequence = 99, .made_at = kNow.realtime}, 99, later);  // it is not on the page
  const auto world = read_page(*page, later.monotonic).groups[0];
  CHECK(world.is_live);
  CHECK((world.called == 22 && world.started == 22 && world.finished == 21));
  CHECK(read_calls(*page, 0).back().called_at == kNow.monotonic);
  CHECK_FALSE(read_page(*page, later.monotonic + kSecond).groups[0].is_live);
  // The numbers of a group only grow.
  write_counters(*page, 5, {.sequence = 21, .made_at = kNow.realtime}, 21, later);
  CHECK(read_page(*page, later.monotonic).groups[0].called == 22);
}

TEST_CASE("write_to_page() adds to the NCCL plug-in's page, and an NCCL recorder replaces the plug-in's group") {
  const auto page = zeros();
  page->places = 1;
  page->groups[0].identity = 5;
  page->groups[0].size = 2;
  page->groups[0].called = 4;
  page->groups[0].launches = static_cast<std::uint64_t>(ddp::wire::Launches::all);
  page->groups[0].in_use = ddp::wire::kPageInUse;
  page->writer = 7;
  RecordedGroup group = group_of(20, 19);
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  CHECK(page->places == 2);
  CHECK(page->records_launches == 0);
  CHECK(read_page(*page, kNow.monotonic).groups.size() == 2);
  group.recorder = Recorder::nccl;
  REQUIRE(write_to_page(*page, 7, std::vector{group}, kNow));
  CHECK(page->records_launches == 1);
  const auto view = read_page(*page, kNow.monotonic);
  REQUIRE(view.groups.size() == 1);
  CHECK_FALSE(view.groups[0].launches);
}
