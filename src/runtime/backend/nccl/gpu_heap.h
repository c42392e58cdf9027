// GpuHeap owns a group's memory on its GPU, and the page-locked memory that goes with it.
// See docs/development/decisions/0045-gpu-memory-and-launch-order.md.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/backend/nccl/cuda_resources.h"
#include "runtime/backend/nccl/followed_streams.h"
#include "runtime/backend/nccl/gpu_libraries.h"

namespace ddp::internal {

// A task of the heap's thread. Returns false if it must be tried again later.
using HeapTask = std::function<bool()>;
// Makes memory known to NCCL. Returns the task that ends this, or null if NCCL does not know the memory.
using RegisterMemory = std::function<HeapTask(void* memory, std::size_t bytes)>;

// Memory that is kept between calls. A larger block replaces a smaller one, at least twice as large.
struct GrowingBlock {
  std::shared_ptr<void> memory;
  std::size_t bytes = 0;

  // Returns the block, with at least so many bytes.
  template <typename Allocate>
  std::byte* reserve(std::size_t least, const Allocate& allocate) {
    if (least > bytes) {
      const std::size_t wanted = std::max(least, 2 * bytes);
      memory = allocate(wanted);
      bytes = wanted;
    }
    return static_cast<std::byte*>(memory.get());
  }
};

// Work on a stream may still use memory that its owner gives back. NCCL's memory is unmapped at once when it is freed,
// and CUDA's waits for the whole device, on which a kernel may wait for this rank. So a thread of the heap frees memory
// when the work that its streams held at that moment is done. No other thread waits for it.
//
// Small blocks are parts of larger, registered ones, because every allocation of NCCL costs 2 MiB and a registration.
// Memory may outlive the heap's group. Any thread may call any function.
class GpuHeap : public std::enable_shared_from_this<GpuHeap> {
 public:
  // allocate() and wait_for() call `look` again and again while they wait for the GPU. The function may throw. It must
  // not keep the group's other objects alive, because memory may outlive the group. Errors name the rank.
  GpuHeap(std::shared_ptr<const GpuLibraries> libraries, int device, std::function<void()> check,
          std::optional<int> rank = {});
  ~GpuHeap();
  GpuHeap(const GpuHeap&) = delete;
  GpuHeap& operator=(const GpuHeap&) = delete;

  // Memory that is allocated later is registered with it. An empty function ends that.
  void register_with(RegisterMemory function);

  // Work on this stream may use the heap's memory. The stream must not be destroyed before forget().
  void follow(CudaStreamHandle stream);
  // Calls `use` if the heap follows the stream. The stream is not forgotten meanwhile. Returns false if it is not
  // followed.
  bool use(CudaStreamHandle stream, const std::function<void()>& use);
  // The heap does not use the stream's handle any more. Memory that is given back later waits for the work that the
  // stream holds now. Returns false, and continues to follow the stream, if it captures a CUDA graph. Does not throw.
  bool forget(CudaStreamHandle stream);
  // Forgets the stream, and destroys it when its work is done. Does not wait for that.
  void retire(std::unique_ptr<CudaStream> stream);

  // Follows the stream, and blocks until the work that is on it now is done. A program's stream may hold any amount of
  // work, so this wait has no limit of its own. Calls `look` again at the end.
  void wait_for(CudaStreamHandle stream);

  // Returns zeroed memory of the GPU. If `only` is given, the owner uses the memory on no other stream, and gives it
  // back before this one is destroyed. It then waits for this stream only. Throws `unavailable` if there is too little.
  std::shared_ptr<void> allocate(std::size_t bytes, std::optional<CudaStreamHandle> only = {});
  // Returns zeroed, page-locked memory of the host.
  std::shared_ptr<void> allocate_pinned(std::size_t bytes);
  // Carries out the task on the heap's thread, when the work that the streams hold now is done, or that `only` and
  // copies() hold. Does not throw, because destructors call it.
  void after_streams(HeapTask task, std::optional<CudaStreamHandle> only = {});

  // Returns the stream for copies. No work on it waits for another stream.
  CudaStreamHandle copies() const { return copies_.handle(); }
  CudaEvents& events() { return events_; }

  // Returns whether everything that was given back is free.
  bool is_swept(std::chrono::nanoseconds limit);

 private:
  struct Waiting {
    HeapTask task;
    StreamWork work;
  };

  // The scope makes the GPU current while the members are made.
  GpuHeap(const GpuScope& scope, std::shared_ptr<const GpuLibraries> libraries, int device, std::function<void()> check,
          std::optional<int> rank);

  // After an error of the GPU nothing is freed, because a stream may still use it. The memory ends with the process.
  // The caller holds the lock, and destroys the tasks without it.
  std::deque<Waiting> lose();
  // Runs on the heap's thread, until nothing waits.
  void serve();
  std::shared_ptr<void> small_block(std::size_t bytes, std::optional<CudaStreamHandle> only);
  void* take_free_block(std::size_t size_class);
  std::shared_ptr<void> own_block(std::size_t bytes, std::optional<CudaStreamHandle> only);
  // Returns memory of the driver, and the task that frees it.
  std::pair<void*, HeapTask> driver_block(std::size_t bytes);
  CudaStatus allocate_by_driver(void*& memory, std::size_t bytes, bool& by_nccl);

  const std::shared_ptr<const GpuLibraries> libraries_;
  const CudaApi& cuda_;
  const int device_;
  const std::optional<int> rank_;
  const std::function<void()> check_;
  CudaEvents events_;
  CudaStream copies_;
  std::mutex mutex_;
  std::condition_variable swept_;
  RegisterMemory register_;
  FollowedStreams streams_;
  std::deque<Waiting> waiting_;
  bool is_serving_ = false;
  bool is_lost_ = false;
  std::vector<HeapTask> slabs_;                     // each frees its slab
  std::array<std::vector<void*>, 16> free_blocks_;  // by size class
};

}  // namespace ddp::internal
