// An NCCL communicator from its making to its end.
#pragma once

#include <ddp/store.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "runtime/backend/nccl/nccl_steps.h"
#include "runtime/peers/peer_watch.h"

namespace ddp::internal {

// The ranks of a communicator, and what its functions keep to.
struct NcclMembers {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};        // of the making
  std::chrono::milliseconds closing_limit{0};  // how long an abort or an orderly end may take before it is left alone
  std::function<void()> enter;                 // makes this rank's GPU the thread's current one
  const std::atomic<bool>* aborted = nullptr;  // true: whatever waits throws `aborted`
  std::shared_ptr<PeerWatch> peers;
  std::shared_ptr<PeerWatch> all_ranks;  // of the group

  // Of whoever waits: throws if the group was aborted or a peer is lost.
  void look_around() const;
  // After a failure that the loss of any rank may be the reason of: throws that, if it turns out within a moment.
  void look_for_the_reason() const;
};

// Collective: the id of a new communicator. Rank 0 makes it and puts it into `store` under `key`.
NcclUniqueId agree_on_id(const NcclApi& nccl, const std::shared_ptr<Store>& store, const std::string& key,
                         const NcclMembers& members);

// Any thread: NCCL wants its calls one at a time, and nobody in them when it aborts.
class NcclCommunicator {
 public:
  // Collective: returns when all ranks have come. Throws `timeout`, or as throw_failure.
  NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, const NcclUniqueId& id);
  // Collective over all ranks of `parent`, which has no work: one communicator for each color, its ranks in the order
  // of `key`.
  NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, NcclCommunicator& parent, int color, int key);
  // Aborts what was not closed.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Takes part in a split without being in one of its communicators.
  void stay_out_of_split();

  // Puts the steps on the stream as one group. With the first of their kind NCCL connects the ranks, and this waits for
  // the others, for up to `timeout`.
  void start(std::span<const NcclStep> steps, CudaStreamHandle stream, std::chrono::milliseconds timeout);

  // Throws if the communicator has failed or a peer is lost; false while it is busy with what was started.
  bool settled();

  // So that NCCL uses the memory where it lies. Null where it cannot.
  void* register_buffer(void* memory, std::size_t bytes);
  void deregister_buffer(void* handle);

  // Ends it in order, or aborts it if that does not work.
  void close();
  // Does not wait for the end of the abort, which can take long, or hang.
  void abort();
  // After either. False if NCCL has not ended within the closing limit: what it uses must then be left alone.
  bool has_ended();

 private:
  // Null: NCCL has not made it yet, or it has ended.
  NcclComm handle() const;
  void end(const std::function<NcclResult(NcclComm)>& function);
  NcclResult state();
  NcclResult start_step(const NcclStep& step, NcclOp op, CudaStreamHandle stream);
  NcclOp premultiplied_sum(const NcclStep& step);
  // Waits until nothing is in progress.
  void settle(std::chrono::milliseconds timeout, const char* deed, const char* late);
  void finish_making(NcclCommunicator* parent = nullptr);
  [[noreturn]] void throw_failure(NcclResult failure, const char* deed) const;

  const NcclApi& nccl_;
  const NcclMembers members_;
  std::mutex deeds_;  // of what may leave NCCL at work: held until that is over, except by an abort
  std::mutex mutex_;  // of NCCL's functions with this communicator
  // NCCL writes the handle here when it has made the communicator, which may be after we have lost patience.
  std::unique_ptr<NcclComm> made_ = std::make_unique<NcclComm>(nullptr);
  bool being_made_ = true;
  bool ended_ = false;
  std::future<void> ending_;
};

}  // namespace ddp::internal
