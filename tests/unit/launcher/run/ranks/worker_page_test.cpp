#include "launcher/run/ranks/worker_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "support/catch.h"

using ddp::launcher::WorkerPage;
using ddp::wire::StatusPageLayout;
using namespace ddp::launcher;
using ddp::wire::PageCall;
using ddp::wire::PageGroup;

namespace {

const StatusPageLayout& mapped(const WorkerPage& page) {
  return *static_cast<StatusPageLayout*>(
      ::mmap(nullptr, sizeof(StatusPageLayout), PROT_READ, MAP_SHARED, page.descriptor(), 0));
}

std::unique_ptr<StatusPageLayout> zeros() {
  auto page = std::make_unique<StatusPageLayout>();
  std::memset(static_cast<void*>(page.get()), 0, sizeof(StatusPageLayout));
  return page;
}

std::unique_ptr<StatusPageLayout> with_one_group() {
  auto page = zeros();
  page->writer = 7;
  page->places = 1;
  page->groups[0].in_use = ddp::wire::kPageInUse;
  page->groups[0].size = 1;
  return page;
}

template <std::size_t N>
void put(std::array<char, N>& to, const std::string& text) {
  text.copy(to.data(), N);
}

}  // namespace

TEST_CASE("a new page has its owner and no lost rank") {
  const WorkerPage page(7, 3, 2);
  const StatusPageLayout& seen = mapped(page);
  CHECK(seen.magic == ddp::wire::kPageMagic);
  CHECK(seen.version == ddp::wire::kPageVersion);
  CHECK(seen.bytes == sizeof(StatusPageLayout));
  CHECK(seen.rank == 7);
  CHECK(seen.local_rank == 3);
  CHECK(seen.attempt == 2);
  CHECK(seen.lost_rank == ddp::wire::kNoRankLost);
  CHECK(seen.writer == 0);
}

TEST_CASE("the page shows the worker's GPU once the worker has written it") {
  const auto page = zeros();
  page->writer = 7;
  page->gpu_uuid = {0x5f, 0x1c, 0x0a, 0x2b, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67};
  CHECK(read_page(*page).gpu_uuid.empty());
  const std::uint64_t before = page_version(*page);
  page->has_gpu_uuid = 1;
  CHECK(page_version(*page) != before);
  CHECK(read_page(*page).gpu_uuid == "5f1c0a2b-0123-4567-89ab-cdef01234567");
}

TEST_CASE("the first lost rank stays on the page") {
  const WorkerPage page(0, 0, 0);
  page.mark_peer_lost(4);
  page.mark_peer_lost(5);
  CHECK(mapped(page).lost_rank == 4);
}

TEST_CASE("a worker cannot shrink the page's memory") {
  const WorkerPage page(0, 0, 0);
  CHECK(::ftruncate(page.descriptor(), 0) != 0);
}

TEST_CASE("a moved page object keeps its memory") {
  WorkerPage first(1, 1, 0);
  const int descriptor = first.descriptor();
  WorkerPage second = std::move(first);
  CHECK(second.descriptor() == descriptor);
  WorkerPage none;
  none.mark_peer_lost(1);
  CHECK(none.descriptor() == -1);
}

TEST_CASE("a page that the worker has not written is marked as unwritten") {
  CHECK(read_page(*zeros()) == PageView());
}

TEST_CASE("all fields of a page are read as they were written") {
  const auto page = zeros();
  page->writer = 4711;
  page->worker.phase = 6;
  page->worker.since = 99;
  page->worker.line = 171;
  page->worker.steps = 12;
  page->worker.more_time_until = 1000;
  put(page->worker.name, "run1");
  put(page->worker.file, "/home/me/train.cpp");
  PageGroup& group = page->groups[2];
  group.in_use = 1;
  page->places = ddp::wire::kPageGroups;
  group.rank = 1;
  group.size = 4;
  put(group.name, "world");
  group.called = 7;
  group.started = 7;
  group.finished = 6;
  group.identity = 42;
  group.transfers_called = 2;
  ddp::wire::PageTransfer& transfer = group.transfers[3];
  transfer.number = 5;
  transfer.operation = 10;
  transfer.type = 2;
  transfer.count = 8;
  transfer.peer = 3;
  transfer.waiters = 1;
  transfer.called_at = 77;
  transfer.line = 9;
  put(transfer.file, "/home/me/pipeline.cpp");
  group.transfers[0].number = 4;
  group.transfers[0].is_done = 1;
  group.transfers[1].number = 4;
  group.transfers[1].peer = 4;  // the group has no such rank
  page->worker.calling_threads = 2;
  page->worker.waiting_threads = 1;
  page->worlds_entered = 2;
  page->awaited_world = 3;
  const PageView view = read_page(*page);
  CHECK(view.is_written);
  CHECK(view.writer == 4711);
  CHECK(view.phase == RankPhase::checkpoint);
  CHECK(view.phase_since == 99);
  CHECK(view.phase_name == "run1");
  CHECK(view.phase_place == "train.cpp:171");
  CHECK(view.steps == 12);
  CHECK(view.more_time_until == 1000);
  CHECK(view.calling_threads == 2);
  CHECK(view.waiting_threads == 1);
  CHECK(view.worlds_entered == 2);
  CHECK(view.awaited_world == 3);
  GroupView expected = {"world", 1, 4, 2, 7, 7, 6, 2, 0};
  expected.identity = 42;
  expected.transfers = {{false, 3, 5, false, true, 77, "f32[8]", "pipeline.cpp:9"},
                        {false, 0, 4, true, false, 0, "f16[0]", ""}};
  REQUIRE(view.groups.size() == 1);
  CHECK(view.groups[0].transfers == expected.transfers);
  CHECK(view.groups[0] == expected);
  CHECK(describe(expected.transfers[0]) == "recv f32[8] from rank 3");
}

TEST_CASE("calls are read in order, and a half-written one is left out") {
  const auto page = zeros();
  const auto put_call = [&](std::size_t place, std::uint64_t sequence) {
    PageCall& call = page->groups[0].calls[place];
    call.sequence = sequence;
    call.fingerprint = sequence * 3;
    call.called_at = 5;
    call.count = 1024;
    call.peer = -1;
    call.line = 88;
    call.type = 2;
    put(call.name, "bucket 0");
    put(call.file, "train.cpp");
  };
  put_call(0, 17);
  put_call(1, 2);
  put_call(2, 0);
  put_call(3, 4);
  page->groups[0].calls[1].operation = 2;
  page->groups[0].calls[1].peer = 3;
  page->groups[0].calls[3].operation = 8;
  const auto calls = read_calls(*page, 0);
  REQUIRE(calls.size() == 3);
  CHECK(calls[0] == CallView{2, 6, 5, "broadcast root 3 f32[1024]", "bucket 0", "train.cpp:88", 3});
  CHECK(calls[1].what == "barrier");
  CHECK(calls[2] == CallView{17, 51, 5, "all_reduce sum f32[1024]", "bucket 0", "train.cpp:88"});
  CHECK_THROWS(read_calls(*page, static_cast<int>(ddp::wire::kPageGroups)));
}

TEST_CASE("a status page with random contents yields printable names and valid ranks") {
  std::mt19937_64 random(3);
  const auto page = zeros();
  for (int round = 0; round < 200; ++round) {
    auto* bytes = reinterpret_cast<unsigned char*>(page.get());
    for (std::size_t i = 0; i < sizeof(StatusPageLayout); ++i) bytes[i] = static_cast<unsigned char>(random());
    for (PageGroup& group : page->groups) {
      if (random() % 2 == 0) group.in_use = 1;
    }
    const PageView view = read_page(*page);
    CHECK(view.groups.size() <= ddp::wire::kPageGroups);
    const auto is_printable = [](const std::string& text) {
      for (const char c : text) {
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) return false;
      }
      return true;
    };
    CHECK(is_printable(view.phase_name + view.phase_place));
    for (const GroupView& group : view.groups) {
      CHECK((group.rank >= 0 && group.rank < group.size && is_printable(group.name)));
      for (const CallView& call : read_calls(*page, group.place)) {
        CHECK(is_printable(call.what + call.name + call.place));
      }
    }
  }
}

TEST_CASE("the version of a page changes with each of its fields") {
  const auto page = std::make_unique<ddp::wire::StatusPageLayout>();
  std::set<std::uint64_t> versions = {page_version(*page)};
  const auto changes = [&](auto& number) {
    ++number;
    CHECK(versions.insert(page_version(*page)).second);
  };
  CHECK(page_version(*page) == *versions.begin());
  changes(page->writer);
  changes(page->worker.changes);
  changes(page->worker.steps);
  changes(page->worker.more_time_until);
  page->places = ddp::wire::kPageGroups;
  for (auto& group : page->groups) {
    changes(group.in_use);
    changes(group.called);
    changes(group.started);
    changes(group.finished);
    changes(group.transfers_called);
    changes(group.transfers_finished);
    changes(group.gpu_queued);
    changes(group.gpu_started);
    changes(group.gpu_finished);
  }
}

TEST_CASE("a process group that is no longer sampled counts as left and changes the version of the status page") {
  const auto page = with_one_group();
  PageGroup& group = page->groups[0];
  constexpr std::uint64_t kMinute = 60'000'000'000;
  CHECK_FALSE(read_page(*page, kMinute).groups.at(0).is_left);
  CHECK_FALSE(read_page(*page, kMinute).groups.at(0).is_sampled);
  group.sampled_at = kMinute;
  CHECK_FALSE(read_page(*page, kMinute + 1).groups.at(0).is_left);
  CHECK(read_page(*page, kMinute + 1).groups.at(0).is_sampled);
  CHECK(read_page(*page, 2 * kMinute).groups.at(0).is_left);
  CHECK(page_version(*page, kMinute + 1) == page_version(*page, kMinute + 2));
  CHECK(page_version(*page, kMinute + 1) != page_version(*page, 2 * kMinute));
}

TEST_CASE("GPU counters are accepted only if they are plausible") {
  const auto page = with_one_group();
  PageGroup& group = page->groups[0];
  group.called = 9;
  const auto seen = [&](std::uint64_t queued, std::uint64_t started, std::uint64_t finished) {
    group.gpu_queued = queued;
    group.gpu_started = started;
    group.gpu_finished = finished;
    const GroupView view = read_page(*page).groups.at(0);
    return std::array{view.gpu_queued, view.gpu_started, view.gpu_finished};
  };
  using Numbers = std::array<std::uint64_t, 3>;
  CHECK(seen(9, 8, 7) == Numbers{9, 8, 7});
  CHECK(seen(10, 8, 7) == Numbers{});
  CHECK(seen(8, 9, 7) == Numbers{});
  CHECK(seen(9, 8, 9) == Numbers{});
}

TEST_CASE("training is reported as the first step until some steps are done") {
  const auto page = std::make_unique<ddp::wire::StatusPageLayout>();
  page->writer = 7;
  page->worker.phase = 4;
  CHECK(read_page(*page).phase == RankPhase::first_step);
  page->worker.steps = 1;
  CHECK(read_page(*page).phase == RankPhase::training);
  // Programs that synchronise by themselves count no steps.
  page->worker.steps = 0;
  page->places = 1;
  page->groups[0].in_use = ddp::wire::kPageInUse;
  page->groups[0].size = 1;
  page->groups[0].finished = 7;
  CHECK(read_page(*page).phase == RankPhase::first_step);
  page->groups[0].finished = 8;
  CHECK(read_page(*page).phase == RankPhase::training);
  page->worker.phase = 6;
  CHECK(read_page(*page).phase == RankPhase::checkpoint);
}

TEST_CASE("stacks belong to the latest request") {
  const auto page = std::make_unique<ddp::wire::StatusPageLayout>();
  CHECK(read_stacks(*page).empty());
  page->stacks.request = 2;
  page->stacks.stacks[0].answers = 1;
  page->stacks.stacks[3].answers = 2;
  page->stacks.stacks[3].thread = 7;
  page->stacks.stacks[3].depth = 1000;  // this is more than there can be
  const auto stacks = read_stacks(*page);
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].tid == 7);
  CHECK(stacks[0].addresses.size() == ddp::wire::kPageFrames);
}

TEST_CASE("arrivals are read only from complete calls") {
  const auto page = std::make_unique<ddp::wire::StatusPageLayout>();
  CHECK(read_arrivals(*page, 0).empty());
  page->groups[0].calls[2].sequence = 3;
  page->groups[0].calls[2].called_at = 99;
  const auto arrivals = read_arrivals(*page, 0);
  REQUIRE(arrivals.size() == 1);
  CHECK(arrivals[0].sequence == 3);
  CHECK(arrivals[0].called_at == 99);
}

TEST_CASE("a finished step or transfer is progress of a worker, and finished collectives alone are not") {
  using ddp::wire::Progress;
  PageView page;
  CHECK(progress_of(page) == Progress::unknown);
  page.is_written = true;
  page.groups.push_back({.name = "world", .finished = 999});
  CHECK(progress_of(page) == Progress::none);
  page.groups.front().transfers_finished = 1;
  CHECK(progress_of(page) == Progress::some);
  page.groups.clear();
  page.steps = 1;
  CHECK(progress_of(page) == Progress::some);
}
