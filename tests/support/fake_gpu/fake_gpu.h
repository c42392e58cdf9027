// A machine with GPUs, in software: libfake_gpu.so stands in for libcuda.so.1 and libnccl.so.2, so that all that is
// ours runs without a GPU. Device memory is host memory, a stream is a thread, and ranks meet in a shared file, so they
// may be threads or processes. As NCCL on one machine it never notices that a rank has ended.
//
// fake_cuda.cpp and fake_nccl.cpp export the functions that the runtime looks up, and nothing more.
//
//   FAKE_GPU_COUNT          devices (8); 0: cuInit fails as without a GPU
//   FAKE_NCCL_VERSION       22907 by default
//   FAKE_NCCL_FAIL_FIRST    "1": every collective ends as a system error
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace fake_gpu {

// Does one thing after the other, on a thread.
class Stream {
 public:
  Stream();
  // Waits for what it does.
  ~Stream();
  void push(std::function<void()> deed);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> deeds_;
  bool closed_ = false;
  std::thread thread_;
};

// Null is the default stream.
Stream& stream_of(void* handle);

// Device memory, so that pointers can be told apart.
void* allocate(std::size_t bytes);
bool release(void* memory);

}  // namespace fake_gpu
