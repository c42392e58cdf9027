#include "launcher/process/board_view.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>

using namespace ddp::launcher;
using ddp::wire::BoardCall;
using ddp::wire::BoardGroup;
using ddp::wire::ProgressBoard;

namespace {

std::unique_ptr<ProgressBoard> zeros() {
  auto board = std::make_unique<ProgressBoard>();
  std::memset(static_cast<void*>(board.get()), 0, sizeof(ProgressBoard));
  return board;
}

template <std::size_t N>
void put(std::array<char, N>& to, const std::string& text) {
  text.copy(to.data(), N);
}

}  // namespace

TEST_CASE("a board that nobody writes says so") {
  CHECK(read_board(*zeros()) == BoardView());
}

TEST_CASE("a board is read as it is written") {
  const auto board = zeros();
  board->writer = 4711;
  board->worker.phase = 6;
  board->worker.since = 99;
  board->worker.line = 171;
  board->worker.steps = 12;
  board->worker.more_time_until = 1000;
  put(board->worker.name, "run1");
  put(board->worker.file, "/home/me/train.cpp");
  BoardGroup& group = board->groups[2];
  group.in_use = 1;
  board->places = ddp::wire::kBoardGroups;
  group.rank = 1;
  group.size = 4;
  put(group.name, "world");
  group.called = 7;
  group.started = 7;
  group.finished = 6;
  group.identity = 42;
  group.transfers_called = 2;
  ddp::wire::BoardTransfer& transfer = group.transfers[3];
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
  group.transfers[1].peer = 4;  // no rank of the group
  board->worker.calling_threads = 2;
  board->worker.waiting_threads = 1;
  board->worlds_entered = 2;
  board->awaited_world = 3;
  const BoardView view = read_board(*board);
  CHECK(view.is_written);
  CHECK(view.writer == 4711);
  CHECK(view.phase == "checkpoint");
  CHECK(view.phase_since == 99);
  CHECK(view.section == "run1");
  CHECK(view.section_place == "train.cpp:171");
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

TEST_CASE("calls are told in their order and what is being written is left out") {
  const auto board = zeros();
  const auto put_call = [&](std::size_t place, std::uint64_t sequence) {
    BoardCall& call = board->groups[0].calls[place];
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
  board->groups[0].calls[1].operation = 2;
  board->groups[0].calls[1].peer = 3;
  board->groups[0].calls[3].operation = 8;
  const auto calls = read_calls(*board, 0);
  REQUIRE(calls.size() == 3);
  CHECK(calls[0] == CallView{2, 6, 5, "broadcast root 3 f32[1024]", "bucket 0", "train.cpp:88"});
  CHECK(calls[1].what == "barrier");
  CHECK(calls[2] == CallView{17, 51, 5, "all_reduce sum f32[1024]", "bucket 0", "train.cpp:88"});
  CHECK_THROWS(read_calls(*board, static_cast<int>(ddp::wire::kBoardGroups)));
}

TEST_CASE("whatever the memory holds the view is harmless") {
  std::mt19937_64 random(3);
  const auto board = zeros();
  for (int round = 0; round < 200; ++round) {
    auto* bytes = reinterpret_cast<unsigned char*>(board.get());
    for (std::size_t i = 0; i < sizeof(ProgressBoard); ++i) bytes[i] = static_cast<unsigned char>(random());
    for (BoardGroup& group : board->groups) {
      if (random() % 2 == 0) group.in_use = 1;
    }
    const BoardView view = read_board(*board);
    CHECK(view.groups.size() <= ddp::wire::kBoardGroups);
    const auto is_printable = [](const std::string& text) {
      for (const char c : text) {
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) return false;
      }
      return true;
    };
    CHECK(is_printable(view.section + view.section_place + view.phase));
    for (const GroupView& group : view.groups) {
      CHECK((group.rank >= 0 && group.rank < group.size && is_printable(group.name)));
      for (const CallView& call : read_calls(*board, group.place)) {
        CHECK(is_printable(call.what + call.name + call.place));
      }
    }
  }
}

TEST_CASE("a board's stamp is another one whenever the board is") {
  const auto board = std::make_unique<ddp::wire::ProgressBoard>();
  std::set<std::uint64_t> stamps = {board_stamp(*board)};
  const auto changes = [&](auto& number) {
    ++number;
    CHECK(stamps.insert(board_stamp(*board)).second);
  };
  CHECK(board_stamp(*board) == *stamps.begin());
  changes(board->writer);
  changes(board->worker.changes);
  changes(board->worker.steps);
  changes(board->worker.more_time_until);
  board->places = ddp::wire::kBoardGroups;
  for (auto& group : board->groups) {
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

TEST_CASE("what a gpu says is taken for true only if it can be") {
  const auto board = std::make_unique<ddp::wire::ProgressBoard>();
  board->writer = 7;
  board->places = 1;
  BoardGroup& group = board->groups[0];
  group.in_use = ddp::wire::kBoardInUse;
  group.size = 1;
  group.called = 9;
  const auto seen = [&](std::uint64_t queued, std::uint64_t started, std::uint64_t finished) {
    group.gpu_queued = queued;
    group.gpu_started = started;
    group.gpu_finished = finished;
    const GroupView view = read_board(*board).groups.at(0);
    return std::array{view.gpu_queued, view.gpu_started, view.gpu_finished};
  };
  using Numbers = std::array<std::uint64_t, 3>;
  CHECK(seen(9, 8, 7) == Numbers{9, 8, 7});
  CHECK(seen(10, 8, 7) == Numbers{});
  CHECK(seen(8, 9, 7) == Numbers{});
  CHECK(seen(9, 8, 9) == Numbers{});
}

TEST_CASE("training is the first step until some are done") {
  const auto board = std::make_unique<ddp::wire::ProgressBoard>();
  board->writer = 7;
  board->worker.phase = 4;
  CHECK(read_board(*board).phase == "first step");
  board->worker.steps = 1;
  CHECK(read_board(*board).phase == "training");
  // Programs that synchronise by themselves count no steps.
  board->worker.steps = 0;
  board->places = 1;
  board->groups[0].in_use = ddp::wire::kBoardInUse;
  board->groups[0].size = 1;
  board->groups[0].finished = 7;
  CHECK(read_board(*board).phase == "first step");
  board->groups[0].finished = 8;
  CHECK(read_board(*board).phase == "training");
  board->worker.phase = 6;
  CHECK(read_board(*board).phase == "checkpoint");
}

TEST_CASE("stacks are those of the latest request") {
  const auto board = std::make_unique<ddp::wire::ProgressBoard>();
  CHECK(read_stacks(*board).empty());
  board->stacks.request = 2;
  board->stacks.stacks[0].answers = 1;
  board->stacks.stacks[3].answers = 2;
  board->stacks.stacks[3].thread = 7;
  board->stacks.stacks[3].depth = 1000;  // more than there can be
  const auto stacks = read_stacks(*board);
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].tid == 7);
  CHECK(stacks[0].addresses.size() == ddp::wire::kBoardFrames);
}

TEST_CASE("arrivals are those of whole calls") {
  const auto board = std::make_unique<ddp::wire::ProgressBoard>();
  CHECK(read_arrivals(*board, 0).empty());
  board->groups[0].calls[2].sequence = 3;
  board->groups[0].calls[2].called_at = 99;
  const auto arrivals = read_arrivals(*board, 0);
  REQUIRE(arrivals.size() == 1);
  CHECK(arrivals[0].sequence == 3);
  CHECK(arrivals[0].called_at == 99);
}

TEST_CASE("a worker has made progress when it has finished a step or as good as one") {
  using ddp::wire::Progress;
  BoardView board;
  CHECK(progress_of(board) == Progress::unknown);
  board.is_written = true;
  board.groups.push_back({.name = "world", .finished = 999});
  CHECK(progress_of(board) == Progress::none);
  board.groups.front().transfers_finished = 1;
  CHECK(progress_of(board) == Progress::some);
  board.groups.clear();
  board.steps = 1;
  CHECK(progress_of(board) == Progress::some);
}
