// NcclCommunicator manages an NCCL communicator from its creation to its end.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "runtime/backend/nccl/nccl_members.h"
#include "runtime/backend/nccl/nccl_steps.h"

namespace ddp::internal {

// States whether an operation only launches work, or also connects the ranks, which waits for them.
enum class Launch { known, connects };

// Any thread may use it. NCCL allows one call at a time. A non-blocking communicator may be aborted only while no call
// runs. On a blocking one (NcclApi::blocking), a call that waits for other ranks runs on a thread of its own, which an
// abort ends. So does the call that makes a communicator, because it may turn out to be a blocking one.
class NcclCommunicator {
 public:
  // Returns when all ranks have joined; all ranks call it. Throws `timeout`, or the errors of throw_failure().
  NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, const NcclUniqueId& id);
  // Splits `parent`, which has no work; all its ranks call it. Each color gets one communicator, with its ranks in the
  // order of `key`.
  NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, NcclCommunicator& parent, int color, int key);
  // Aborts the communicator if it was not closed.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Takes part in a split without being in one of its communicators.
  void stay_out_of_split();

  // Puts the steps on the stream as one group. If they connect the ranks, it waits for these, for up to `timeout`.
  // Steps of a known kind take part in the launch order of the GPU.
  void start(std::span<const NcclStep> steps, CudaStreamHandle stream, std::chrono::milliseconds timeout,
             Launch launch = Launch::connects);

  // Returns false while the communicator is busy with started work. Throws if it has failed or a peer is lost.
  bool settled();

  // Lets NCCL use the memory in place. Returns null if NCCL cannot do this, or if a call is in progress.
  void* register_buffer(void* memory, std::size_t bytes);
  // Does not wait. Returns false if a call is in progress, so that the caller must try again later.
  bool deregister_buffer(void* handle);

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

 private:
  // Returns null if NCCL has not made the communicator yet, or if it has ended.
  NcclComm handle() const;
  void end(const NcclLocalCall<NcclComm>& function);
  NcclResult state();
  // Runs a call of NCCL. If communicators block and the call waits for other ranks, it runs on a thread of its own.
  template <typename Call>
  NcclResult call(Call function, Launch launch, std::chrono::milliseconds timeout, const char* action,
                  const char* late);
  std::unique_lock<std::mutex> lock_against_abort();
  // Waits until nothing is in progress.
  void settle(std::chrono::milliseconds timeout, const char* action, const char* late);
  void finish_making(NcclCommunicator* parent = nullptr);
  [[noreturn]] void throw_failure(NcclResult failure, const char* action) const;

  const NcclApi& nccl_;
  const NcclMembers members_;
  std::mutex settling_;      // held by an operation until NCCL has settled; an abort does not take it
  std::mutex mutex_;         // protects calls of NCCL with this communicator; an abort takes it if they do not block
  std::mutex ending_mutex_;  // protects the end
  // NCCL writes the handle here when it has made the communicator. This may happen after the caller has stopped
  // waiting.
  std::shared_ptr<NcclComm> made_ = std::make_shared<NcclComm>(nullptr);
  std::atomic<bool> being_made_ = true;
  std::atomic<bool> blocks_ = true;  // known when NCCL has been called to make the communicator
  std::atomic<bool> ended_ = false;
  NcclResult closing_ = NcclResult::success;   // of finalize
  std::shared_future<NcclResult> finalizing_;  // of a blocking communicator
  std::shared_future<void> ending_;
};

}  // namespace ddp::internal
