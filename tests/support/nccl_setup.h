// Makes communicators of the simulated NCCL, and counts how they end.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "runtime/backend/nccl/nccl_communicator.h"
#include "support/deadline.h"
#include "support/gpu_libraries.h"

namespace ddp::test {

using namespace internal;

// Holds one rank, and counts what it does to its communicator.
struct NcclSetup {
  NcclApi nccl = gpu_libraries()->nccl;
  NcclUniqueId id{};
  std::atomic<bool> aborted = false;
  // These counts are shared with threads that are left behind.
  struct Counts {
    std::atomic<int> aborts = 0;
    std::atomic<int> destroys = 0;
  };
  std::shared_ptr<Counts> counts = std::make_shared<Counts>();

  NcclSetup() {
    enter();
    nccl.get_unique_id(id);
    replace(nccl.abort, [counts = counts, real = nccl.abort](NcclComm comm) {
      ++counts->aborts;
      return real(comm);
    });
    replace(nccl.destroy, [counts = counts, real = nccl.destroy](NcclComm comm) {
      ++counts->destroys;
      return real(comm);
    });
  }
  // Makes the GPU current for the thread.
  static void enter() { gpu_libraries()->cuda.set_device(0); }
  std::unique_ptr<NcclCommunicator> communicator(int size = 1, std::chrono::milliseconds limit = kPatience,
                                                 std::chrono::milliseconds closing = kPatience,
                                                 std::shared_ptr<PeerWatch> all_ranks = nullptr) {
    return std::make_unique<NcclCommunicator>(
        nccl, NcclMembers{0, size, 0, limit, closing, enter, &aborted, nullptr, std::move(all_ranks)}, id);
  }
};

}  // namespace ddp::test
