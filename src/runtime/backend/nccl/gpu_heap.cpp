#include "runtime/backend/nccl/gpu_heap.h"

#include <ddp/error.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <system_error>
#include <thread>

#include "base/side_thread.h"
#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kSlab = std::size_t{2} << 20;            // what NCCL allocates at least
constexpr std::size_t kLargestSmall = std::size_t{256} << 10;  // larger blocks have an allocation of their own
constexpr std::size_t kSmallest = 512;                         // CUDA's own alignment is 256 bytes
constexpr auto kSweep = std::chrono::milliseconds(1);          // how often the heap's thread looks at the streams

// Block sizes are powers of two.
std::size_t size_class(std::size_t bytes) {
  return static_cast<std::size_t>(std::countr_zero(std::bit_ceil(std::max(bytes, kSmallest)) / kSmallest));
}

}  // namespace

GpuHeap::GpuHeap(std::shared_ptr<const GpuLibraries> libraries, int device, std::function<void()> check,
                 std::optional<int> rank)
    : GpuHeap(GpuScope(libraries->cuda, device), libraries, device, std::move(check), rank) {}

GpuHeap::GpuHeap(const GpuScope&, std::shared_ptr<const GpuLibraries> libraries, int device,
                 std::function<void()> check, std::optional<int> rank)
    : libraries_(std::move(libraries)),
      cuda_(libraries_->cuda),
      device_(device),
      rank_(rank),
      check_(std::move(check)),
      events_(cuda_),
      copies_(cuda_),
      streams_(cuda_, events_) {
  // allocate() clears memory there, and may end by an exception of check() before that is done.
  follow(copies_.handle());
}

// No block is in use, because each block keeps the heap alive. Freeing may wait for the device, so another thread does
// it.
GpuHeap::~GpuHeap() {
  if (is_lost_) return;
  cuda_.set_device(device_);
  try {
    base::on_side_thread([libraries = libraries_, device = device_, slabs = std::move(slabs_)] {
      // A lost GPU is no reason to end the process. Its memory ends with the process.
      int mode = kCudaCaptureRelaxed;
      const CudaApi& cuda = libraries->cuda;
      if (cuda.set_device(device) != kCudaSuccess || cuda.exchange_capture_mode(mode) != kCudaSuccess) return;
      for (const HeapTask& free : slabs) free();
    });
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the memory ends with the process
  }
}

void GpuHeap::register_with(RegisterMemory function) {
  const std::lock_guard lock(mutex_);
  register_ = std::move(function);
}

void GpuHeap::follow(CudaStreamHandle stream) {
  const std::lock_guard lock(mutex_);
  streams_.follow(stream);
}

bool GpuHeap::use(CudaStreamHandle stream, const std::function<void()>& use) {
  const std::lock_guard lock(mutex_);
  if (!streams_.follows(stream)) return false;
  use();
  return true;
}

bool GpuHeap::forget(CudaStreamHandle stream) {
  std::deque<Waiting> lost;
  const std::lock_guard lock(mutex_);
  if (!streams_.follows(stream)) return true;
  try {
    const GpuScope scope(cuda_, device_);
    const auto mark = streams_.forget(stream);
    if (!mark) return false;
    for (Waiting& waiting : waiting_) waiting.work.end(stream, *mark);
  } catch (const std::exception&) {
    streams_.drop(stream);
    lost = lose();
  }
  return true;
}

void GpuHeap::retire(std::unique_ptr<CudaStream> stream) {
  const std::shared_ptr<CudaStream> kept(std::move(stream));
  forget(kept->handle());
  after_streams([kept] { return true; }, kept->handle());
}

void GpuHeap::wait_for(CudaStreamHandle stream) {
  const GpuScope scope(cuda_, device_);
  follow(stream);
  events_.finish(stream, check_);
  // An operation that was aborted has left the program's stream as if it were done.
  if (stream != copies_.handle()) check_();
}

std::shared_ptr<void> GpuHeap::allocate(std::size_t bytes, std::optional<CudaStreamHandle> only) {
  const GpuScope scope(cuda_, device_);
  std::shared_ptr<void> memory = bytes <= kLargestSmall ? small_block(bytes, only) : own_block(bytes, only);
  require_cuda(cuda_, cuda_.fill_async(memory.get(), 0, std::max<std::size_t>(bytes, 1), copies_.handle()),
               "clear memory");
  events_.finish(copies_.handle(), check_);
  return memory;
}

std::shared_ptr<void> GpuHeap::allocate_pinned(std::size_t bytes) {
  const GpuScope scope(cuda_, device_);
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  void* memory = nullptr;
  require_cuda(cuda_, cuda_.allocate_pinned(memory, wanted, kCudaHostPortable),
               "page-lock " + std::to_string(wanted) + " bytes of host memory");
  std::memset(memory, 0, wanted);
  return {memory, [self = shared_from_this()](void* pointer) {
            self->after_streams([self, pointer] {
              self->cuda_.release_pinned(pointer);
              return true;
            });
          }};
}

void GpuHeap::after_streams(HeapTask task, std::optional<CudaStreamHandle> only) {
  bool begins = false;
  std::deque<Waiting> lost;
  Waiting waiting{std::move(task), {}};
  try {
    const GpuScope scope(cuda_, device_);
    const std::lock_guard lock(mutex_);
    if (is_lost_) return;
    waiting.work = only ? streams_.work({copies_.handle(), *only}) : streams_.work();
    waiting_.push_back(std::move(waiting));
    begins = !std::exchange(is_serving_, true);
    if (begins) base::on_side_thread([self = shared_from_this()] { self->serve(); });
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    if (begins) {
      is_serving_ = false;  // no thread can be started, so the memory stays until the next call
    } else {
      lost = lose();
    }
  }
}

bool GpuHeap::is_swept(std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  return swept_.wait_for(lock, limit, [this] { return waiting_.empty() && !is_serving_; });
}

std::deque<GpuHeap::Waiting> GpuHeap::lose() {
  is_lost_ = true;
  return std::exchange(waiting_, {});
}

void GpuHeap::serve() {
  // The end of a task may take the lock.
  std::vector<Waiting> ready;
  std::deque<Waiting> lost;
  try {
    const GpuScope scope(cuda_, device_);
    std::unique_lock lock(mutex_);
    while (!waiting_.empty()) {
      ready.clear();
      std::erase_if(waiting_, [&](Waiting& waiting) {
        const bool done = streams_.is_done(waiting.work);
        if (done) ready.push_back(std::move(waiting));
        return done;
      });
      lock.unlock();
      const std::size_t tried = ready.size();
      std::erase_if(ready, [](const Waiting& waiting) { return waiting.task(); });
      if (tried == ready.size()) std::this_thread::sleep_for(kSweep);
      lock.lock();
      std::move(ready.begin(), ready.end(), std::back_inserter(waiting_));
    }
    is_serving_ = false;
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    lost = lose();
    is_serving_ = false;
  }
  swept_.notify_all();
}

std::shared_ptr<void> GpuHeap::small_block(std::size_t bytes, std::optional<CudaStreamHandle> only) {
  const std::size_t index = size_class(bytes);
  void* block = take_free_block(index);
  if (block == nullptr) {
    auto [slab, free] = driver_block(kSlab);
    const std::lock_guard lock(mutex_);
    slabs_.push_back(std::move(free));
    auto* first = static_cast<std::byte*>(slab);
    const std::size_t size = kSmallest << index;
    for (std::size_t at = 0; at + size <= kSlab; at += size) free_blocks_[index].push_back(first + at);
    block = free_blocks_[index].back();
    free_blocks_[index].pop_back();
  }
  return {block, [self = shared_from_this(), index, only](void* pointer) {
            const auto free = [self, pointer, index] {
              const std::lock_guard lock(self->mutex_);
              self->free_blocks_[index].push_back(pointer);
              return true;
            };
            self->after_streams(free, only);
          }};
}

void* GpuHeap::take_free_block(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (free_blocks_[index].empty()) return nullptr;
  void* block = free_blocks_[index].back();
  free_blocks_[index].pop_back();
  return block;
}

std::shared_ptr<void> GpuHeap::own_block(std::size_t bytes, std::optional<CudaStreamHandle> only) {
  auto [block, free] = driver_block(bytes);
  return {block, [self = shared_from_this(), free = std::move(free), only](void*) { self->after_streams(free, only); }};
}

std::pair<void*, HeapTask> GpuHeap::driver_block(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  void* memory = nullptr;
  bool by_nccl = false;
  CudaStatus status = allocate_by_driver(memory, bytes, by_nccl);
  // What was given back may not be free yet.
  if (status != kCudaSuccess && is_swept(libraries_->closing_limit)) {
    status = allocate_by_driver(memory, bytes, by_nccl);
  }
  require_gpu_memory(cuda_, status, {bytes, "", device_, rank_});
  RegisterMemory function;
  {
    const std::lock_guard lock(mutex_);
    if (by_nccl) function = register_;
  }
  HeapTask deregister = function ? function(memory, bytes) : nullptr;
  return {memory, [libraries = libraries_, memory, by_nccl, deregister = std::move(deregister)] {
            if (deregister && !deregister()) return false;
            by_nccl ? static_cast<void>(libraries->nccl.release(memory))
                    : static_cast<void>(libraries->cuda.release(memory));
            return true;
          }};
}

// NCCL's allocator needs handles that can be shared, which some sandboxes and container runtimes refuse.
CudaStatus GpuHeap::allocate_by_driver(void*& memory, std::size_t bytes, bool& by_nccl) {
  const NcclApi& nccl = libraries_->nccl;
  const NcclResult result = nccl.allocate ? nccl.allocate(memory, bytes) : NcclResult::invalid_usage;
  by_nccl = !is_failure(result);
  if (by_nccl) return kCudaSuccess;
  const CudaStatus status = cuda_.allocate(memory, bytes);
  static std::once_flag reported;
  if (nccl.allocate && status == kCudaSuccess) {
    std::call_once(reported, [&] { std::fputs(memory_from_cuda_note(nccl.error_string(result)).c_str(), stderr); });
  }
  return status;
}

}  // namespace ddp::internal
