// NcclCommunicator: owns one NCCL communicator, from the unique id to its orderly or disorderly end.
#pragma once

#include <chrono>
#include <string>

#include "runtime/backend/backend.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace ddp {

// Used from one thread at a time, on the device it was made on. Either close() or abort() ends it, and only one of them
// is ever called: NCCL may block for ever if a communicator is destroyed after a failure.
class NcclCommunicator {
 public:
  // Collective: returns when all ranks have come. Throws `timeout` after options.timeout, else as throw_failure().
  // `closing_limit` bounds the end: NCCL's calls for it have been seen to hang when a peer or the network is gone.
  NcclCommunicator(const NcclApi& nccl, const BackendOptions& options, const NcclUniqueId& id,
                   std::chrono::milliseconds closing_limit);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  NcclComm handle() const { return comm_; }
  NcclResult state() const { return nccl_.async_error(comm_); }

  // The orderly end. False if NCCL was not done within the limit: then memory and streams that it uses must be left
  // alone for the rest of the process.
  bool close();

  // After a failure. Stops what still runs on the GPU. False as for close().
  bool abort();

  // `peer_lost` if NCCL says that another rank is gone, else `internal`; with NCCL's words. `deed`: what failed.
  [[noreturn]] void throw_failure(NcclResult failure, const std::string& deed) const;

 private:
  const NcclApi& nccl_;
  const std::chrono::milliseconds closing_limit_;
  NcclComm comm_ = nullptr;
};

}  // namespace ddp
