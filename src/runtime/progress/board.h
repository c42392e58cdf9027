// What this process shows of itself to the launcher. Everything here does nothing where no launcher gave it a board.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/call/call.h"
#include "wire/progress_board.h"

namespace ddp::internal {

// The board of this process; null if it has none. `descriptor`: the text of DDP_BOARD_FD. A process whose parent writes
// the same board has none.
wire::ProgressBoard* map_board(const char* descriptor);
wire::ProgressBoard* process_board();

// As much of the end of `text` as fits, and a zero: the end of a path says more than its beginning.
template <std::size_t N>
void write_end_of(std::array<char, N>& to, std::string_view text) {
  text.remove_prefix(text.size() - std::min(text.size(), N - 1));
  std::memcpy(to.data(), text.data(), text.size());
  to[text.size()] = '\0';
}

// A process group's place on the board. called() by one thread at a time and in order, finished() too; started() by
// any.
class GroupProgress {
 public:
  // `identity`: the same on all ranks of the group, and no other group's.
  GroupProgress(wire::ProgressBoard* board, const std::string& name, std::uint64_t identity, int rank, int size);
  ~GroupProgress();
  GroupProgress(const GroupProgress&) = delete;
  GroupProgress& operator=(const GroupProgress&) = delete;

  // On the thread that calls the operation. Of transfers: by any, at any time, as all that follows.
  void called(const Call& call);
  // A thread begins to wait for the operation, and ends to.
  void waits(const Call& call, bool begins);
  // A thread asks whether an operation is done.
  void polls();
  void started(const Call& call);
  void finished(const Call& call);
  // A collective of the group: what it was at stays on the board after its end.
  void failed() { has_failed_ = true; }

  // Null: the group has no place.
  wire::BoardGroup* place() { return group_; }

 private:
  void take(wire::BoardGroup& group, const std::string& name, std::uint64_t identity, int rank, int size);
  void show_transfer(const Call& call);
  wire::BoardTransfer* transfer_of(const Call& call);

  wire::ProgressBoard* const board_;
  wire::BoardGroup* group_ = nullptr;
  std::mutex transfers_;
  std::uint64_t fingerprint_ = 0;
  std::atomic<bool> has_failed_ = false;
};

// A piece of data has been handed on to a rank of this machine, or taken from one.
void count_handed_on();

// While it lives, this thread waits for other ranks outside of any operation: for them to come to a new group.
class ThreadWaits {
 public:
  ThreadWaits();
  ~ThreadWaits();
  ThreadWaits(const ThreadWaits&) = delete;
  ThreadWaits& operator=(const ThreadWaits&) = delete;
};

// While it lives, this process waits in init() for all ranks of a world to come. Of one process one at a time.
class AwaitsWorld {
 public:
  explicit AwaitsWorld(int world_size);
  ~AwaitsWorld();
  AwaitsWorld(const AwaitsWorld&) = delete;
  AwaitsWorld& operator=(const AwaitsWorld&) = delete;
};

// While it lives, this thread runs the program's code, whatever it waits for around it: a continuation.
class ProgramRuns {
 public:
  ProgramRuns();
  ~ProgramRuns();
  ProgramRuns(const ProgramRuns&) = delete;
  ProgramRuns& operator=(const ProgramRuns&) = delete;

 private:
  const int waits_;
};

// The rank whose failure ends the job, says the launcher; -1: none.
int rank_lost_says_launcher();

}  // namespace ddp::internal
