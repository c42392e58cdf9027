// MpiCommunicator holds the ranks of one group in MPI; MpiWait waits for requests to MPI.
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

// If `code` is an error, throws `internal` with the text "MPI cannot `action`" and the reason. Throws `mismatch` if a
// message was too long.
void require_mpi(int code, const std::string& action);

// Waits for requests with a deadline. MPI cannot cancel an operation: after a failure, MPI still uses the buffer.
class MpiWait {
 public:
  // `action` appears in messages. During the wait, `peers` and `aborted` are checked; a null pointer disables its
  // check.
  MpiWait(std::chrono::milliseconds timeout, std::string_view action, PeerWatch* peers = nullptr,
          const std::atomic<bool>* aborted = nullptr);

  // `begun` is the code that MPI returned when it started the request.
  void operator()(int begun, MPI_Request& request) const;

 private:
  const std::chrono::milliseconds timeout_;
  mutable Polling polling_;
  const std::string action_;
  PeerWatch* const peers_;
  const std::atomic<bool>* const aborted_;
};

// Owns a separate communicator. So the program's messages are not mistaken for the runtime's, and the program keeps its
// error handling. MPI belongs to the process, not to a group: it can be initialized once and, after it was finalized,
// never again. So the first communicator initializes MPI, and MPI is finalized when the process ends.
class MpiCommunicator {
 public:
  // All ranks of options.world_ranks call it and meet in `store`, or all ranks of mpirun call it. Throws `mismatch` if
  // MPI numbers the ranks differently, `unavailable` if MPI lacks full thread support, or `timeout`.
  explicit MpiCommunicator(const BackendOptions& options, Store* store = nullptr);
  ~MpiCommunicator();
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  MPI_Comm get() const { return communicator_; }

  // Records that an operation has failed and may still be under way. Any thread may call it.
  void say_failed();

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::atomic<bool> usable_ = true;
};

}  // namespace ddp::internal
