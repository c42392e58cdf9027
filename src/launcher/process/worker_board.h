// WorkerBoard: the progress board of one worker (wire/progress_board.h), on the launcher's side.
#pragma once

#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "launcher/process/board_view.h"
#include "launcher/process/rank_view.h"
#include "wire/progress_board.h"

namespace ddp::launcher {

class WorkerBoard {
 public:
  // Empty where the system has no memory for it: then the worker goes without.
  WorkerBoard() = default;
  WorkerBoard(int rank, int local_rank, int attempt);
  WorkerBoard(WorkerBoard&& other) noexcept { swap(other); }
  WorkerBoard& operator=(WorkerBoard&& other) noexcept {
    swap(other);
    return *this;
  }
  ~WorkerBoard();

  // To be inherited; -1: none.
  int descriptor() const { return descriptor_.get(); }

  std::uint64_t stamp() const { return board_ == nullptr ? 1 : board_stamp(*board_); }
  BoardView view() const { return board_ == nullptr ? BoardView() : read_board(*board_); }
  std::vector<CallView> calls(int place) const {
    return board_ == nullptr ? std::vector<CallView>() : read_calls(*board_, place);
  }

  std::vector<Arrival> arrivals(int place) const {
    return board_ == nullptr ? std::vector<Arrival>() : read_arrivals(*board_, place);
  }

  // The signal that asks the worker for its stacks, and a new request for them; the answers to the latest one. 0: none.
  int stack_signal() const { return board_ == nullptr ? 0 : board_->stacks.signal.load(); }
  void request_stacks() const;
  std::vector<RawStack> stacks() const { return board_ == nullptr ? std::vector<RawStack>() : read_stacks(*board_); }

  // Tells the worker whose failure ends the job. The first one counts.
  void mark_peer_lost(int rank) const;

 private:
  void swap(WorkerBoard& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(board_, other.board_);
  }

  base::UniqueFd descriptor_;
  wire::ProgressBoard* board_ = nullptr;
};

}  // namespace ddp::launcher
