// GroupProgress: what a process group is at, on the status page of its process.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "runtime/call/call.h"
#include "runtime/progress/status_page.h"

namespace ddp::internal {

// A process group's place on the page. called() by one thread at a time and in order, finished() too; started() by
// any.
class GroupProgress {
 public:
  // `identity`: the same on all ranks of the group, and no other group's. Of a group that is not shown it is counted
  // that it goes on, and nothing else.
  GroupProgress(StatusPage page, bool is_shown, const std::string& name, std::uint64_t identity, int rank, int size);
  ~GroupProgress();
  GroupProgress(const GroupProgress&) = delete;
  GroupProgress& operator=(const GroupProgress&) = delete;

  // On the thread that calls the operation. Of transfers: by any, at any time, as all that follows.
  void called(const Call& call);
  // A thread begins to wait for the operation, and ends to.
  void waits(const Call& call, bool begins);
  void continuation_runs(bool begins) { page_.continuation_runs(begins); }
  // A thread asks whether an operation is done.
  void polls();
  void started(const Call& call);
  void finished(const Call& call);
  // A collective of the group: what it was at stays on the page after its end.
  void failed() { has_failed_ = true; }

  // Null: the group has no place.
  wire::PageGroup* place() { return group_; }

 private:
  void take(wire::PageGroup& group, const std::string& name, std::uint64_t identity, int rank, int size);
  void show_transfer(const Call& call);
  wire::PageTransfer* transfer_of(const Call& call);

  const StatusPage page_;
  const bool is_shown_;
  wire::PageGroup* group_ = nullptr;
  std::mutex transfers_;
  std::uint64_t fingerprint_ = 0;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace ddp::internal
