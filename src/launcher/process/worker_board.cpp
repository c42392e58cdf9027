#include "launcher/process/worker_board.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ddp::launcher {

WorkerBoard::WorkerBoard(int rank, int local_rank, int attempt) {
  base::UniqueFd memory(::memfd_create("ddp-board", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory || ::ftruncate(memory.get(), sizeof(wire::ProgressBoard)) != 0) return;
  // A worker that shrinks it would kill us by SIGBUS.
  ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* mapped = ::mmap(nullptr, sizeof(wire::ProgressBoard), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return;
  descriptor_ = std::move(memory);
  board_ = static_cast<wire::ProgressBoard*>(mapped);  // zeros, which is what the worker's part must be
  board_->magic = wire::kBoardMagic;
  board_->version = wire::kBoardVersion;
  board_->bytes = sizeof(wire::ProgressBoard);
  board_->rank = rank;
  board_->local_rank = local_rank;
  board_->attempt = attempt;
  board_->lost_rank = wire::kNoRankLost;
}

WorkerBoard::~WorkerBoard() {
  if (board_ != nullptr) ::munmap(board_, sizeof(wire::ProgressBoard));
}

void WorkerBoard::request_stacks() const {
  if (board_ == nullptr) return;
  board_->stacks.taken = 0;
  ++board_->stacks.request;
}

void WorkerBoard::mark_peer_lost(int rank) const {
  std::int32_t none = wire::kNoRankLost;
  if (board_ != nullptr) board_->lost_rank.compare_exchange_strong(none, rank);
}

}  // namespace ddp::launcher
