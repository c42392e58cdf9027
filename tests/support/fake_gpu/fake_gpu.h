// Simulates a computer with GPUs in software. libfake_gpu.so replaces libcuda.so.1 and libnccl.so.2, so that all code
// of ddplaunch runs without a GPU. Device memory is host memory, a stream is a thread, and ranks meet in a shared file,
// so they may be threads or processes. Like NCCL on one node, it never notices that a rank has ended.
//
// fake_cuda.cpp and fake_nccl.cpp export only the functions that the runtime looks up. These variables configure them:
//
//   FAKE_GPU_COUNT          number of devices (8); if 0, cuInit fails as without a GPU
//   FAKE_NCCL_VERSION       version (22907)
//   FAKE_NCCL_FAIL_FIRST    if "1", every collective ends with a system error
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace fake_gpu {

// Runs functions on a thread, one after the other.
class Stream {
 public:
  Stream();
  // Waits until all functions have run.
  ~Stream();
  void push(std::function<void()> action);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> actions_;
  bool closed_ = false;
  std::thread thread_;
};

// Returns the stream of a handle; null is the default stream.
Stream& stream_of(void* handle);

// Device memory is registered, so that its pointers can be recognised.
void* allocate(std::size_t bytes);
bool release(void* memory);

}  // namespace fake_gpu
