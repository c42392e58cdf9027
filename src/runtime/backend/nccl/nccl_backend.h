// The backend for NVIDIA GPUs. docs/decisions/0004-nccl-is-a-plug-in.md
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/backend/backend.h"
#include "runtime/backend/nccl/cuda_resources.h"
#include "runtime/backend/nccl/nccl_api.h"
#include "runtime/backend/nccl/nccl_communicator.h"

namespace ddp {

// The constructor, the destructor and every operation make this rank's GPU (device_of() in device_choice.h) the current
// one of their thread and leave it so: setting back the device that was current before would create a context, some
// hundred megabytes, on a GPU that the program may never have used.
//
// Host buffers are staged through device memory that grows to the largest of them; device buffers are used as they are
// and must lie on this rank's GPU.
//
// NCCL notices a peer that it reaches over the network and that is gone (`peer_lost`); one that it reaches over NVLink
// or shared memory it does not, that ends in `timeout`. Either way the communicator is aborted before the error is
// thrown.
class NcclBackend : public Backend {
 public:
  // How long an abort or an orderly end may take before it is left to itself.
  static constexpr std::chrono::milliseconds kClosingLimit = std::chrono::seconds(10);

  // Collective: returns when all ranks have come. Rank 0 puts the unique id into `store`. Throws as NcclCommunicator.
  NcclBackend(const BackendOptions& options, Store& store, NcclApi nccl, CudaApi cuda,
              std::chrono::milliseconds closing_limit = kClosingLimit);
  ~NcclBackend() override;
  NcclBackend(const NcclBackend&) = delete;
  NcclBackend& operator=(const NcclBackend&) = delete;

  std::string_view name() const override { return "nccl"; }
  void run(const Call& call) override;

 private:
  void run_on_device(const Call& call);
  void all_reduce(const Buffer& buffer, ReduceOp op);
  void broadcast(const Buffer& buffer, int root);
  void all_gather(const Buffer& output, const ConstBuffer& input);
  void all_gather_parts(const Call& call);
  void barrier();
  void make_device_current() const;
  // Waits until `enqueued`, and with it all work of the stream, is done.
  void complete(NcclResult enqueued);
  void copy(void* to, const void* from, std::size_t bytes, CopyDirection direction);
  void abandon();

  const BackendOptions options_;
  const NcclApi nccl_;
  const CudaApi cuda_;
  int device_ = 0;
  std::chrono::milliseconds timeout_{0};  // of the operation that runs
  bool usable_ = true;
  DeviceScratch scratch_;
  // Made within the constructor, while this rank's device is the current one.
  std::optional<CudaStream> stream_;
  std::optional<NcclCommunicator> communicator_;
};

}  // namespace ddp
