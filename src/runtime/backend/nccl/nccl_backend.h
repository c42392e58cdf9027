// NcclBackend is the backend for NVIDIA GPUs. See docs/development/decisions/0015-nccl-and-cuda-at-run-time.md.
#pragma once

#include <ddp/error.h>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/backend/backend.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/backend/nccl/gpu_heap.h"
#include "runtime/backend/nccl/gpu_kernels.h"
#include "runtime/backend/nccl/gpu_libraries.h"
#include "runtime/backend/nccl/nccl_lane.h"

namespace ddp::internal {

// The constructor, the destructor and every operation make this rank's GPU (device_of() in device_choice.h) current for
// their thread. They do not restore the previous GPU. That would create a context of some hundred megabytes on a GPU
// that the program may never have used.
//
// Their calls do not disturb a program that captures CUDA graphs (GpuScope).
//
// Device buffers are used in place and must lie on this rank's GPU. Host buffers are staged through device memory that
// grows to the largest call. Operations on host buffers begin only in run(). The same holds for reductions that NCCL
// does not know (16-bit integers, bitwise operations, reduce and reduce_scatter with the minimum or maximum of
// floating-point values). For these, every rank gathers all data and reduces them on the host.
class NcclBackend : public Backend {
 public:
  // Returns when all ranks have joined; all ranks call it. Rank 0 puts the unique id into `store`. Throws the same
  // errors as NcclCommunicator.
  NcclBackend(const BackendOptions& options, std::shared_ptr<Store> store,
              std::shared_ptr<const GpuLibraries> libraries);
  ~NcclBackend() override;
  NcclBackend(const NcclBackend&) = delete;
  NcclBackend& operator=(const NcclBackend&) = delete;

  std::string_view name() const override { return "nccl"; }
  std::optional<int> gpu() const override { return device_; }
  void try_out(std::chrono::milliseconds timeout) override;
  BeginsAhead begins_ahead() const override;
  void check(const Call& call) const override;
  bool begin(std::span<const Call* const> calls) override { return begin(calls, false); }
  bool begin_batch(std::span<const Call* const> calls) override { return begin(calls, true); }
  void run(const Call& call) override;
  void host_waits(const Call& call, bool begins) override { host_waits_for(call.operation) += begins ? 1 : -1; }
  void join_stream(const Call& call) override;
  void mark_on(wire::StatusPageLayout& page, wire::PageGroup& place) override;
  std::optional<GpuSpan> gpu_span(const Call& call) const override {
    return is_transfer(call.operation) ? std::nullopt : collectives_->last_span();
  }
  void abort() override;
  std::shared_ptr<void> allocate_on_gpu(std::size_t bytes) override;
  std::shared_ptr<void> allocate_pinned(std::size_t bytes) override;
  void copy(const Buffer& to, const ConstBuffer& from, Stream before) override;
  void zero(const Buffer& buffer, Stream stream) override;
  void forget(Stream stream) override;
  std::unique_ptr<SideStream> side_stream() override;
  GpuMath* gpu_math() override;
  std::shared_ptr<void> register_buffer(const Buffer& buffer) override;
  bool can_split() const override { return bool(libraries_->nccl.split); }
  std::unique_ptr<Backend> split(const BackendOptions& options, std::shared_ptr<Store> store, int color) override;

 private:
  NcclBackend(const BackendOptions& options, std::shared_ptr<Store> store,
              std::shared_ptr<const GpuLibraries> libraries, int device);

  // Holds the error that made the group abort. The heap's functions need it, and may outlive the backend.
  class FirstFailure {
   public:
    void keep(const std::string& what) {
      const std::lock_guard lock(mutex_);
      if (what_.empty()) what_ = what;
    }
    Error aborted() const {
      const std::lock_guard lock(mutex_);
      return aborted_error(what_);
    }

   private:
    mutable std::mutex mutex_;
    std::string what_;
  };

  void register_memory();
  // Proves that collectives compute the right values in registered memory.
  void try_registered_memory(std::chrono::milliseconds timeout);
  // Describes the ranks that run such operations.
  NcclMembers members(int rank, int size, Operation operation = Operation::all_reduce, int peer = -1) const;
  std::atomic<int>& host_waits_for(Operation operation) { return host_waits_[is_transfer(operation) ? 1 : 0]; }
  std::unique_ptr<NcclLane> make_lane(const std::string& key, const NcclMembers& members, Operation operation);
  // Returns null if that communicator does not exist yet.
  NcclLane* lane_of(const Call& call);
  NcclLane& made_lane_of(const Call& call);
  // Returns null if the driver cannot load the kernels.
  GpuKernels* kernels();
  // Returns whether NCCL carries out the call with the buffers as they are, or on integers that the GPU computes.
  bool runs_on_gpu(const Call& call);
  bool begin(std::span<const Call* const> calls, bool may_wait);
  // These functions carry out the reductions that NCCL does not know. Such a call blocks.
  void reduce_all_on_host(const Call& call);
  void reduce_in_order_on_host(const Call& call);
  void require_own_memory(const Call& call) const;
  void require_own_memory(const ConstBuffer& buffer) const;
  template <typename Action>
  void guarded(const Call& call, Action&& action);

  const BackendOptions options_;
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<const GpuLibraries> libraries_;
  const CudaApi& cuda_;
  int device_ = 0;
  std::atomic<bool> aborted_ = false;
  std::atomic<bool> has_worked_ = false;
  bool registers_ = false;                        // set before the program can use the group
  std::array<std::atomic<int>, 2> host_waits_{};  // for collectives and for transfers
  const std::shared_ptr<FirstFailure> failure_ = std::make_shared<FirstFailure>();
  std::shared_ptr<GpuHeap> heap_;
  std::once_flag kernels_are_loaded_;
  std::unique_ptr<GpuKernels> kernels_;           // null if the driver cannot load them
  std::atomic<GpuKernels*> kernels_in_use_ = {};  // null until they are loaded
  std::mutex mutex_;                              // protects the map
  std::shared_ptr<NcclLane> collectives_;
  std::map<std::pair<Operation, int>, std::unique_ptr<NcclLane>> transfers_;  // by operation and peer
};

}  // namespace ddp::internal
