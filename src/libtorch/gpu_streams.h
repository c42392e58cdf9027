// Connects libtorch's CUDA streams with the runtime's. It uses only the device-neutral part of libtorch (c10), so that
// one build of the adapter serves libtorch with and without CUDA.
#pragma once

#include <ddp/process_group.h>
#include <ddp/stream.h>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ddp::libtorch {

// Throws invalid_argument, with `what` as its subject, if this rank uses another GPU.
void require_own_gpu(const ProcessGroup& group, const std::string& what, c10::Device device);

// Returns libtorch's current stream of the device on this thread. `device` is a CUDA device.
c10::Stream current_stream(c10::Device device);

// Returns the stream as the runtime takes it. Throws `unavailable` if this libtorch cannot say which stream it is.
Stream to_runtime(const c10::Stream& stream);

// Owns memory that is not libtorch's, on which libtorch's kernels work. libtorch's allocator reuses memory only after
// the work on the stream to which it belongs, and on the streams that were recorded for it. This memory is not in its
// hands, so this class does the same: it frees the memory when the work on all streams that used it is done.
class SharedMemory {
 public:
  SharedMemory(std::shared_ptr<void> memory, c10::Device device) : memory_(std::move(memory)), device_(device) {}
  // On a GPU it blocks until the streams are done. Leaves the memory to the process if that takes too long or fails,
  // because kernels may then still use it.
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Any thread may call it.
  void used_on(const c10::Stream& stream);

 private:
  bool wait_for_streams() const;

  std::shared_ptr<void> memory_;
  const c10::Device device_;
  std::mutex mutex_;
  std::vector<c10::Stream> streams_;
};

}  // namespace ddp::libtorch
