// bindings/c/ddp_board.h describes the board that wire/progress_board.h describes.
#include <ddp/progress.h>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "../../../bindings/c/ddp_board.h"
#include "wire/progress_board.h"
#include "wire/worker_env.h"

using namespace ddp::wire;

static_assert(DDP_BOARD_MAGIC == kBoardMagic);
static_assert(DDP_BOARD_VERSION == kBoardVersion);
static_assert(DDP_BOARD_BYTES == sizeof(ProgressBoard));
static_assert(DDP_BOARD_GROUPS == kBoardGroups);
static_assert(DDP_GROUP_CALLS == kBoardCalls);
static_assert(DDP_BOARD_NO_RANK_LOST == kNoRankLost);
static_assert(DDP_BOARD_VARIABLE == std::string_view(env::kBoard));

static_assert(DDP_BOARD_AT_MAGIC == offsetof(ProgressBoard, magic));
static_assert(DDP_BOARD_AT_VERSION == offsetof(ProgressBoard, version));
static_assert(DDP_BOARD_AT_BYTES == offsetof(ProgressBoard, bytes));
static_assert(DDP_BOARD_AT_RANK == offsetof(ProgressBoard, rank));
static_assert(DDP_BOARD_AT_LOCAL_RANK == offsetof(ProgressBoard, local_rank));
static_assert(DDP_BOARD_AT_ATTEMPT == offsetof(ProgressBoard, attempt));
static_assert(DDP_BOARD_AT_LOST_RANK == offsetof(ProgressBoard, lost_rank));
static_assert(DDP_BOARD_AT_WRITER == offsetof(ProgressBoard, writer));
static_assert(DDP_BOARD_AT_GROUPS_NOT_SHOWN == offsetof(ProgressBoard, groups_not_shown));
static_assert(DDP_BOARD_AT_PLACES == offsetof(ProgressBoard, places));
static_assert(DDP_BOARD_AT_WORKER == offsetof(ProgressBoard, worker));
static_assert(DDP_BOARD_AT_GROUPS == offsetof(ProgressBoard, groups));

static_assert(DDP_WORKER_BYTES == sizeof(BoardWorker));
static_assert(DDP_WORKER_AT_CHANGES == offsetof(BoardWorker, changes));
static_assert(DDP_WORKER_AT_PHASE == offsetof(BoardWorker, phase));
static_assert(DDP_WORKER_AT_SINCE == offsetof(BoardWorker, since));
static_assert(DDP_WORKER_AT_LINE == offsetof(BoardWorker, line));
static_assert(DDP_WORKER_AT_STEPS == offsetof(BoardWorker, steps));
static_assert(DDP_WORKER_AT_MORE_TIME_UNTIL == offsetof(BoardWorker, more_time_until));
static_assert(DDP_WORKER_AT_NAME == offsetof(BoardWorker, name));
static_assert(DDP_WORKER_NAME_BYTES == sizeof(BoardWorker::name));
static_assert(DDP_WORKER_AT_FILE == offsetof(BoardWorker, file));
static_assert(DDP_WORKER_FILE_BYTES == sizeof(BoardWorker::file));

static_assert(DDP_GROUP_BYTES == sizeof(BoardGroup));
static_assert(DDP_GROUP_AT_IN_USE == offsetof(BoardGroup, in_use));
static_assert(DDP_GROUP_AT_RANK == offsetof(BoardGroup, rank));
static_assert(DDP_GROUP_AT_SIZE == offsetof(BoardGroup, size));
static_assert(DDP_GROUP_AT_NAME == offsetof(BoardGroup, name));
static_assert(DDP_GROUP_NAME_BYTES == sizeof(BoardGroup::name));
static_assert(DDP_GROUP_AT_CALLED == offsetof(BoardGroup, called));
static_assert(DDP_GROUP_AT_STARTED == offsetof(BoardGroup, started));
static_assert(DDP_GROUP_AT_FINISHED == offsetof(BoardGroup, finished));
static_assert(DDP_GROUP_AT_TRANSFERS_CALLED == offsetof(BoardGroup, transfers_called));
static_assert(DDP_GROUP_AT_TRANSFERS_FINISHED == offsetof(BoardGroup, transfers_finished));
static_assert(DDP_GROUP_AT_GPU_QUEUED == offsetof(BoardGroup, gpu_queued));
static_assert(DDP_GROUP_AT_GPU_STARTED == offsetof(BoardGroup, gpu_started));
static_assert(DDP_GROUP_AT_GPU_FINISHED == offsetof(BoardGroup, gpu_finished));
static_assert(DDP_GROUP_AT_CALLS == offsetof(BoardGroup, calls));

static_assert(DDP_CALL_BYTES == sizeof(BoardCall));
static_assert(DDP_CALL_AT_SEQUENCE == offsetof(BoardCall, sequence));
static_assert(DDP_CALL_AT_FINGERPRINT == offsetof(BoardCall, fingerprint));
static_assert(DDP_CALL_AT_CALLED_AT == offsetof(BoardCall, called_at));
static_assert(DDP_CALL_AT_COUNT == offsetof(BoardCall, count));
static_assert(DDP_CALL_AT_PEER == offsetof(BoardCall, peer));
static_assert(DDP_CALL_AT_LINE == offsetof(BoardCall, line));
static_assert(DDP_CALL_AT_OPERATION == offsetof(BoardCall, operation));
static_assert(DDP_CALL_AT_TYPE == offsetof(BoardCall, type));
static_assert(DDP_CALL_AT_OP == offsetof(BoardCall, op));
static_assert(DDP_CALL_AT_NAME == offsetof(BoardCall, name));
static_assert(DDP_CALL_NAME_BYTES == sizeof(BoardCall::name));
static_assert(DDP_CALL_AT_FILE == offsetof(BoardCall, file));
static_assert(DDP_CALL_FILE_BYTES == sizeof(BoardCall::file));

namespace {

constexpr bool is_same(ddp_board_phase theirs, ddp::Phase ours) {
  return static_cast<std::uint32_t>(theirs) == static_cast<std::uint32_t>(ours);
}

static_assert(is_same(DDP_PHASE_STARTING, ddp::Phase::starting));
static_assert(is_same(DDP_PHASE_CONNECTED, ddp::Phase::connected));
static_assert(is_same(DDP_PHASE_RENDEZVOUS, ddp::Phase::rendezvous));
static_assert(is_same(DDP_PHASE_COMMUNICATOR, ddp::Phase::communicator));
static_assert(is_same(DDP_PHASE_TRAINING, ddp::Phase::training));
static_assert(is_same(DDP_PHASE_EVALUATION, ddp::Phase::evaluation));
static_assert(is_same(DDP_PHASE_CHECKPOINT, ddp::Phase::checkpoint));
static_assert(is_same(DDP_PHASE_DATA_LOADING, ddp::Phase::data_loading));
static_assert(is_same(DDP_PHASE_FINISHING, ddp::Phase::finishing));
static_assert(is_same(DDP_PHASE_DONE, ddp::Phase::done));
static_assert(kPhaseNames.size() == DDP_PHASE_DONE + 1);

// As the launcher makes it, and as a worker finds it.
class OfferedBoard {
 public:
  OfferedBoard() : descriptor_(::memfd_create("board", MFD_CLOEXEC)) {
    REQUIRE(::ftruncate(descriptor_, sizeof(ProgressBoard)) == 0);
    memory_ = ::mmap(nullptr, sizeof(ProgressBoard), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    REQUIRE(memory_ != MAP_FAILED);
    board().magic = kBoardMagic;
    board().version = kBoardVersion;
    ::setenv(env::kBoard, std::to_string(descriptor_).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~OfferedBoard() {
    ::unsetenv(env::kBoard);  // NOLINT(concurrency-mt-unsafe)
    ::munmap(memory_, sizeof(ProgressBoard));
    ::close(descriptor_);
  }
  OfferedBoard(const OfferedBoard&) = delete;
  OfferedBoard& operator=(const OfferedBoard&) = delete;

  ProgressBoard& board() { return *static_cast<ProgressBoard*>(memory_); }

 private:
  int descriptor_;
  void* memory_ = nullptr;
};

struct Unmap {
  void operator()(ddp_board* board) const { ::munmap(board, sizeof(ProgressBoard)); }
};

}  // namespace

TEST_CASE("what C writes on the board is what the launcher reads") {
  OfferedBoard offered;
  const std::unique_ptr<ddp_board, Unmap> mapped(ddp_board_open());
  ddp_board* board = mapped.get();
  REQUIRE(board != nullptr);
  BoardWorker& worker = offered.board().worker;
  CHECK(offered.board().writer == ::getpid());

  ddp_heartbeat(board);
  ddp_heartbeat(board);
  CHECK(worker.steps == 2);
  const std::uint64_t before = ddp_board_now();
  ddp_extend(board, 10);
  ddp_extend(board, 5);
  CHECK(worker.more_time_until >= before + 10'000'000'000);
  CHECK(worker.more_time_until <= ddp_board_now() + 10'000'000'000);
  ddp_phase(board, DDP_PHASE_CHECKPOINT, "weights", "train.c", 12);
  CHECK(worker.changes == 2);
  CHECK(worker.phase == static_cast<std::uint32_t>(ddp::Phase::checkpoint));
  CHECK(worker.since >= before);
  CHECK(worker.line == 12);
  CHECK(std::string(worker.name.data()) == "weights");
  CHECK(std::string(worker.file.data()) == "train.c");

  // Cut, with the 0 at the end; what was there before is gone.
  const std::string name(100, 'n');
  const std::string file = std::string(100, 'd') + "/train.c";
  ddp_phase(board, DDP_PHASE_TRAINING, name.c_str(), file.c_str(), 1);
  CHECK(std::string(worker.name.data()) == name.substr(0, sizeof(worker.name) - 1));
  CHECK(std::string(worker.file.data()) == file.substr(file.size() - (sizeof(worker.file) - 1)));
  ddp_phase(board, DDP_PHASE_DONE, nullptr, nullptr, 0);
  CHECK(worker.name == decltype(worker.name){});
  CHECK(worker.file == decltype(worker.file){});
  CHECK(worker.changes == 6);
}

TEST_CASE("a board of another process, and none, are left alone in C") {
  OfferedBoard offered;
  offered.board().writer = ::getpid() + 1;
  CHECK(ddp_board_open() == nullptr);
  CHECK(offered.board().writer == ::getpid() + 1);
  ddp_heartbeat(nullptr);
  ddp_extend(nullptr, 1);
  DDP_PHASE(nullptr, DDP_PHASE_TRAINING, "");
  CHECK(offered.board().worker.steps == 0);
}
