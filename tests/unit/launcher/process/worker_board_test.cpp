#include "launcher/process/worker_board.h"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using ddp::launcher::WorkerBoard;
using ddp::wire::ProgressBoard;

namespace {

const ProgressBoard& mapped(const WorkerBoard& board) {
  return *static_cast<ProgressBoard*>(
      ::mmap(nullptr, sizeof(ProgressBoard), PROT_READ, MAP_SHARED, board.descriptor(), 0));
}

}  // namespace

TEST_CASE("a board says whose it is and that nobody is lost") {
  const WorkerBoard board(7, 3, 2);
  const ProgressBoard& seen = mapped(board);
  CHECK(seen.magic == ddp::wire::kBoardMagic);
  CHECK(seen.version == ddp::wire::kBoardVersion);
  CHECK(seen.bytes == sizeof(ProgressBoard));
  CHECK(seen.rank == 7);
  CHECK(seen.local_rank == 3);
  CHECK(seen.attempt == 2);
  CHECK(seen.lost_rank == ddp::wire::kNoRankLost);
  CHECK(seen.writer == 0);
}

TEST_CASE("the first lost rank stays on the board") {
  const WorkerBoard board(0, 0, 0);
  board.mark_peer_lost(4);
  board.mark_peer_lost(5);
  CHECK(mapped(board).lost_rank == 4);
}

TEST_CASE("a worker cannot take the board's memory away") {
  const WorkerBoard board(0, 0, 0);
  CHECK(::ftruncate(board.descriptor(), 0) != 0);
}

TEST_CASE("a board that moves stays one") {
  WorkerBoard first(1, 1, 0);
  const int descriptor = first.descriptor();
  WorkerBoard second = std::move(first);
  CHECK(second.descriptor() == descriptor);
  WorkerBoard none;
  none.mark_peer_lost(1);
  CHECK(none.descriptor() == -1);
}
