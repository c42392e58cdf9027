// NcclCommunicator makes an NCCL communicator, and starts operations on it.
#pragma once

#include <ddp/store.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "runtime/backend/nccl/nccl_handle.h"
#include "runtime/backend/nccl/nccl_steps.h"

namespace ddp::internal {

// Returns the id of a new communicator. All ranks call it. Rank 0 makes the id and puts it into `store` under `key`.
NcclUniqueId agree_on_id(const NcclApi& nccl, const std::shared_ptr<Store>& store, const std::string& key,
                         const NcclMembers& members);

// States whether an operation only launches work, or also connects the ranks, which waits for them.
enum class Launch { known, connects };

class NcclCommunicator : public NcclHandle {
 public:
  // Returns when all ranks have joined; all ranks call it. Throws `timeout`, or the errors of throw_failure().
  NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, const NcclUniqueId& id);
  // Splits `parent`, which has no work; all its ranks call it. Each color gets one communicator, with its ranks in the
  // order of `key`.
  NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, NcclCommunicator& parent, int color, int key);
  // Aborts the communicator if it was not closed.
  ~NcclCommunicator() { abort(); }

  // Takes part in a split without being in one of its communicators.
  void stay_out_of_split();

  // Puts the steps on the stream as one group. If they connect the ranks, it waits for these, for up to `timeout`.
  // Steps of a known kind take part in the launch order of the GPU.
  void start(std::span<const NcclStep> steps, CudaStreamHandle stream, std::chrono::milliseconds timeout,
             Launch launch = Launch::connects);

  // Lets NCCL use the memory in place. Returns null if NCCL cannot do this, or if a call is in progress.
  void* register_buffer(void* memory, std::size_t bytes);
  // Does not wait. Returns false if a call is in progress, so that the caller must try again later.
  bool deregister_buffer(void* handle);

 private:
  // Runs a call of NCCL. If communicators block and the call waits for other ranks, it runs on a thread of its own.
  template <typename Call>
  NcclResult call(Call function, Launch launch, std::chrono::milliseconds timeout, const char* action,
                  const char* late);
  // Waits until nothing is in progress.
  void settle(std::chrono::milliseconds timeout, const char* action, const char* late);
  void finish_making(NcclCommunicator* parent = nullptr);

  std::mutex settling_;  // held by an operation until NCCL has settled; an abort does not take it
};

}  // namespace ddp::internal
