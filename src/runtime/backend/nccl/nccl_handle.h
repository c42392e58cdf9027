// NcclHandle holds an NCCL communicator: it watches it, and ends it in order or by an abort.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include "base/side_thread.h"
#include "runtime/backend/nccl/nccl_api.h"
#include "runtime/peers/peer_watch.h"

namespace ddp::internal {

// The code polls this long for a communicator's change of state before it sleeps. These are not hot paths.
inline constexpr std::chrono::milliseconds kConnectSpin{1};

// Describes the ranks of a communicator and the limits of its functions.
struct NcclMembers {
  int rank = 0;
  int size = 1;
  int device = 0;
  std::chrono::milliseconds timeout{0};        // limit for making the communicator
  std::chrono::milliseconds closing_limit{0};  // limit for an abort or an orderly end, which is then left alone
  std::function<void()> enter;                 // makes this rank's GPU current for the thread
  const std::atomic<bool>* aborted = nullptr;  // if true, waiting functions throw `aborted`
  std::shared_ptr<PeerWatch> peers;
  std::shared_ptr<PeerWatch> all_ranks;  // all ranks of the group

  // Functions call it while they wait. Throws if the group was aborted or a peer is lost.
  void check_members() const;
  // Functions call it after a failure that a lost rank may have caused. Throws that loss if it shows within a moment.
  void wait_for_reason() const;
};

// The states are: being made ──▶ usable ──begin_closing()──▶ closing ──▶ ended, and an abort leads from each of them to
// ended. An abort never waits for a call of NCCL that waits for another rank.
//
// Any thread may use it. NCCL allows one call at a time. A non-blocking communicator may be aborted only while no call
// runs. On a blocking one (NcclApi::blocking), a call that waits for other ranks runs on a thread of its own, which an
// abort ends. So does the call that makes a communicator, because it may turn out to be a blocking one.
class NcclHandle {
 public:
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // Returns false while the communicator is busy with started work. Throws if it has failed or a peer is lost.
  bool settled();

  // Begins to end the communicator in order. No operation may be unfinished.
  void begin_closing();
  // Ends the communicator, or aborts it if closing has not come to an end by then.
  void finish_closing(std::chrono::steady_clock::time_point until);
  void close() {
    begin_closing();
    finish_closing(std::chrono::steady_clock::now() + members_.closing_limit);
  }
  // Aborts the communicator. Does not wait for the end of the abort, which can take long or hang.
  void abort();
  // The caller has called close() or abort() before. Returns false if NCCL has not ended by then. Then the caller must
  // not free anything that NCCL uses.
  bool has_ended(std::chrono::steady_clock::time_point until);
  bool has_ended() { return has_ended(std::chrono::steady_clock::now() + members_.closing_limit); }

 protected:
  NcclHandle(const NcclApi& nccl, const NcclMembers& members, bool blocks = true)
      : nccl_(nccl), members_(members), blocks_(blocks) {}
  ~NcclHandle() = default;

  // Returns null if NCCL has not made the communicator yet, or if it has ended.
  NcclComm handle() const;
  // Runs a call of NCCL on a separate thread, which may be left behind.
  template <typename Function>
  auto on_own_thread(Function function) const {
    return base::on_side_thread([function = std::move(function), enter = members_.enter] {
      if (enter) enter();
      return function();
    });
  }
  [[noreturn]] void throw_failure(NcclResult failure, const char* action) const;

  const NcclApi& nccl_;
  const NcclMembers members_;
  std::mutex mutex_;  // protects calls of NCCL with this communicator; an abort takes it if they do not block
  // NCCL writes the handle here when it has made the communicator. This may happen after the caller has stopped
  // waiting.
  std::shared_ptr<NcclComm> made_ = std::make_shared<NcclComm>(nullptr);
  std::atomic<bool> being_made_ = true;
  std::atomic<bool> blocks_;  // known when NCCL has been called to make the communicator

 private:
  NcclResult state();
  std::unique_lock<std::mutex> lock_against_abort();
  void end(const NcclLocalCall<NcclComm>& function);

  std::mutex ending_mutex_;  // protects the end
  std::atomic<bool> ended_ = false;
  NcclResult closing_ = NcclResult::success;   // of finalize
  std::shared_future<NcclResult> finalizing_;  // of a blocking communicator
  std::shared_future<void> ending_;
};

}  // namespace ddp::internal
