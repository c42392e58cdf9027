// GroupProgress shows the state of a process group on the status page of its process, and records its operations.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "runtime/call/call.h"
#include "runtime/progress/record_ring.h"
#include "runtime/progress/status_page.h"

namespace ddp::internal {

// Owns a process group's place on the page. One thread at a time may call called(), in order; the same holds for
// finished(). Any thread may call started().
class GroupProgress {
 public:
  // `identity` is equal on all ranks of the group, and different in each other group. If a group is not shown, only its
  // progress is counted, and nothing is recorded.
  GroupProgress(StatusPage page, bool is_shown, const std::string& name, std::uint64_t identity, int rank, int size,
                RecordRing ring = {});
  ~GroupProgress();
  GroupProgress(const GroupProgress&) = delete;
  GroupProgress& operator=(const GroupProgress&) = delete;

  // The thread that calls the operation calls it. For transfers, any thread may call it and all following functions at
  // any time.
  void called(const Call& call);
  // A thread calls it when it begins to wait for the operation, and when it stops waiting.
  void waits(const Call& call, bool begins);
  // A thread calls it when it begins to wait with a time-out, and when it stops waiting. Such a thread waits for other
  // ranks, but the time-out may end its wait.
  void waits_with_limit(bool begins) {
    if (is_shown_) page_.thread_waits(begins);
  }
  void continuation_runs(bool begins) { page_.continuation_runs(begins); }
  // A thread calls it when it asks whether an operation is done.
  void polls();
  void started(const Call& call);
  void finished(const Call& call);
  // Returns whether the operation is to be recorded.
  bool records(const Call& call) const;
  // Records when the host saw the GPU begin and end the collective.
  void ran_on_gpu(const Call& call, std::chrono::steady_clock::time_point begin,
                  std::chrono::steady_clock::time_point end);
  // Records that a collective of the group failed. The group's state stays on the page after the group's end.
  void failed() { has_failed_ = true; }

  // Returns null if the group has no place.
  wire::PageGroup* place() { return group_; }

 private:
  void take(wire::PageGroup& group, const std::string& name, std::uint64_t identity, int rank, int size);
  void show_transfer(const Call& call);
  void show_finished(const Call& call);
  void record(wire::RecordKind kind, const Call& call, std::uint64_t begin, std::uint64_t end) const;
  void record_wait(const Call& call, bool begins) const;
  wire::PageTransfer* transfer_of(const Call& call);

  const StatusPage page_;
  const bool is_shown_;
  const RecordRing ring_;
  wire::PageGroup* group_ = nullptr;
  std::mutex transfers_;
  std::uint64_t fingerprint_ = 0;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace ddp::internal
