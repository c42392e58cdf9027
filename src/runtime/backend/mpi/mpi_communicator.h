// MpiCommunicator: the ranks of one group in MPI, and waits for what was asked of MPI.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

#include "runtime/backend/backend.h"
#include "runtime/backend/polling.h"
#include "runtime/peers/peer_watch.h"

namespace ddp::internal {

// Throws `internal`: MPI cannot do the deed, and why.
void require_mpi(int code, const std::string& deed);

// Waits for requests with a deadline. MPI cannot take an operation back: after a failure it still has the buffer.
class MpiWait {
 public:
  // `deed` is for messages. While it waits it looks after `peers`, and whether `aborted` was set; null: it does not.
  MpiWait(std::chrono::milliseconds timeout, std::string_view deed, PeerWatch* peers = nullptr,
          const std::atomic<bool>* aborted = nullptr);

  // `begun`: what MPI said to the request.
  void operator()(int begun, MPI_Request& request) const;

 private:
  const std::chrono::milliseconds timeout_;
  const Polling polling_;
  const std::string deed_;
  PeerWatch* const peers_;
  const std::atomic<bool>* const aborted_;
};

// Our own communicator: what the program itself sends is not mistaken for ours, and its error handling stays its.
// MPI belongs to the process, not to a group: it can be begun once and, after its end, never again. So the first one
// begins it, and it ends with the process.
class MpiCommunicator {
 public:
  // Collective over options.world_ranks, which meet in `store`, or over all ranks of mpirun. Throws `mismatch` if MPI
  // counts them otherwise, `unavailable` if it has no full thread support, `timeout`.
  explicit MpiCommunicator(const BackendOptions& options, Store* store = nullptr);
  ~MpiCommunicator();
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  MPI_Comm get() const { return communicator_; }

  // An operation has failed and may still be under way. From any thread.
  void say_failed();

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::atomic<bool> usable_ = true;
};

}  // namespace ddp::internal
