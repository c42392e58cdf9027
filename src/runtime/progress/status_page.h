// StatusPage shows the state of this process to the launcher, which created the memory (wire/status_page_layout.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/status_page_layout.h"

namespace ddp::internal {

// The value refers to the page, or to no page; then every function does nothing. It is passed down to all code that
// shows something. The page lives as long as any thread of the process. Any thread may use it.
class StatusPage {
 public:
  StatusPage() = default;  // refers to no page
  explicit StatusPage(wire::StatusPageLayout* memory) : memory_(memory) {}

  // `descriptor` is the text of DDP_PAGE_FD. Returns no page if it names none, or if the parent of this process writes
  // the page.
  static StatusPage map(const char* descriptor);

  // Clears the groups and threads of the program that this process ran before exec(). It must be called before anything
  // is shown.
  void forget_former_program() const;

  // Returns null if there is no page.
  wire::StatusPageLayout* memory() const { return memory_; }

  // Counts a piece of data that was passed to a rank of this node, or taken from one.
  void count_handed_on() const {
    if (memory_ != nullptr) memory_->worker.handed_on.fetch_add(1, wire::kRelaxed);
  }
  // Counts a synchronised step that is done. Returns its number, or 0 without a page.
  std::uint64_t count_step() const {
    return memory_ == nullptr ? 0 : memory_->worker.steps.fetch_add(1, wire::kRelaxed) + 1;
  }
  // Counts a step or an operation that is done and that nothing else on the page shows.
  void count_other_progress() const {
    if (memory_ != nullptr) memory_->other_progress.fetch_add(1, wire::kRelaxed);
  }
  // Counts this thread as one that has called an operation. It is counted once, until it ends.
  void count_calling_thread() const;
  // Records that this thread begins or stops to wait for other ranks. Waits may be nested, because a continuation may
  // wait, too.
  void thread_waits(bool begins) const;
  // Does the same for a wait that only the operation's end, or its failure, can end.
  void thread_blocks(bool begins) const;
  // Records that a thread of the runtime begins or stops to run the program's code.
  void continuation_runs(bool begins) const {
    if (memory_ != nullptr) memory_->continuations.fetch_add(begins ? 1U : ~0U, wire::kRelaxed);
  }
  // Returns the rank whose failure ends the job, as the launcher reports it, or -1 if there is none.
  int lost_rank() const { return memory_ == nullptr ? wire::kNoRankLost : memory_->lost_rank.load(wire::kRelaxed); }

 private:
  wire::StatusPageLayout* memory_ = nullptr;
};

// While it lives, this thread is shown as waiting for other ranks to join a new group, outside of any operation.
class ThreadWaits {
 public:
  explicit ThreadWaits(StatusPage page) : page_(page) { page_.thread_waits(/*begins=*/true); }
  ~ThreadWaits() { page_.thread_waits(/*begins=*/false); }
  ThreadWaits(const ThreadWaits&) = delete;
  ThreadWaits& operator=(const ThreadWaits&) = delete;

 private:
  const StatusPage page_;
};

// While it lives, this process is shown as waiting in init() for all ranks of a world to join.
class AwaitsWorld {
 public:
  AwaitsWorld(StatusPage page, int world_size) : page_(page) {
    if (page_.memory() != nullptr) page_.memory()->worlds_entered.fetch_add(1, wire::kRelaxed);
    show(world_size);
  }
  ~AwaitsWorld() { show(0); }
  AwaitsWorld(const AwaitsWorld&) = delete;
  AwaitsWorld& operator=(const AwaitsWorld&) = delete;

 private:
  void show(int world_size) const {
    if (page_.memory() == nullptr) return;
    page_.memory()->awaited_world.store(static_cast<std::uint32_t>(world_size), wire::kRelaxed);
  }

  const StatusPage page_;
};

// While it lives, this thread runs the program's code in a continuation. Its waits around the continuation are not
// shown.
class ProgramRuns {
 public:
  ProgramRuns();
  ~ProgramRuns();
  ProgramRuns(const ProgramRuns&) = delete;
  ProgramRuns& operator=(const ProgramRuns&) = delete;

 private:
  const int waits_;
};

// Returns CLOCK_MONOTONIC in nanoseconds, as the page shows it.
inline std::uint64_t monotonic(std::chrono::steady_clock::time_point time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

inline std::uint64_t monotonic_now() {
  return monotonic(std::chrono::steady_clock::now());
}

inline void raise_to(std::atomic<std::uint64_t>& number, std::uint64_t to) {
  std::uint64_t now = number.load(wire::kRelaxed);
  while (now < to && !number.compare_exchange_weak(now, to, wire::kRelaxed)) {
  }
}

// Copies as much of the end of `text` as fits, and a terminating 0. The end of a path is more useful than its
// beginning.
template <std::size_t N>
void write_end_of(std::array<char, N>& to, std::string_view text) {
  text.remove_prefix(text.size() - std::min(text.size(), N - 1));
  std::memcpy(to.data(), text.data(), text.size());
  to[text.size()] = '\0';
}

}  // namespace ddp::internal
