// Simulates a computer with GPUs in software. libfake_gpu.so replaces libcuda.so.1 and libnccl.so.2, so that all code
// of ddplaunch runs without a GPU. Device memory is host memory, a stream is a place in a thread's queue, and ranks
// meet in a shared file, so they may be threads or processes. Like NCCL on one node, it never notices that a rank has
// ended.
//
// fake_cuda.cpp and fake_nccl.cpp export only the functions that the runtime looks up. These variables configure them:
//
//   FAKE_GPU_COUNT                number of devices (8); if 0, cuInit fails as without a GPU
//   FAKE_GPU_MEMORY               bytes of a device's memory (8 GiB)
//   FAKE_GPU_UUIDS                UUIDs of the devices, 32 hexadecimal digits each, separated by commas
//   FAKE_GPU_DELAY                if set, every action on a stream first waits for a random time up to this (µs)
//   CUDA_DEVICE_MAX_CONNECTIONS   number of hardware queues of a device (8)
//   FAKE_GPU_PEERS                what happens to writes to another device's memory: "mirror" (the writer reads them
//                                 back, and the owner sees nothing), "wrong_word", "lost_flag", "lost_copy", "hang",
//                                 "slow", or "none" (no access is offered)
//   FAKE_NCCL_VERSION             version (22907)
//   FAKE_NCCL_FAIL_FIRST          if "1", every collective ends with a system error
//   NCCL_COMM_BLOCKING            as for NCCL, it takes precedence over a communicator's configuration
//   NCCL_CONF_FILE                as for NCCL, a file of variables, which is read when NCCL is first used
//   NCCL_HOSTID                   as for NCCL, it replaces the host's name when NCCL looks for duplicate GPUs
//   NCCL_MULTI_RANK_GPU_ENABLE    if "1", several ranks may use one GPU, from version 2.30 on
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace fake_gpu {

inline constexpr int kCudaSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotReady = 600;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kAlreadyRegistered = 712;
inline constexpr int kNotRegistered = 713;
inline constexpr int kCaptureUnsupported = 900;
inline constexpr int kCaptureInvalidated = 901;
inline constexpr int kCaptureImplicit = 906;
inline constexpr int kCapturedEvent = 907;

// Runs the actions of all streams that share it, one after the other, in the order in which they were pushed. So an
// action that waits holds up streams that have nothing to do with it, as a hardware queue does.
class HardwareQueue {
 public:
  HardwareQueue() : thread_([this] { serve(); }) { thread_.detach(); }
  void push(std::function<void()> action);
  // Blocks until everything that was pushed before is done.
  void drain();
  std::atomic<int> streams = 0;  // number of streams that share the queue now

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> actions_;
  std::thread thread_;
};

// Represents a stream that captures its work into a graph, or a capture that has ended.
struct Capture {
  int mode = 0;
  int device = 0;
  bool is_on_blocking_stream = false;
  std::thread::id thread;
  std::atomic<bool> is_invalid = false;
  std::atomic<bool> has_ended = false;
};

struct Stream {
  explicit Stream(int device_);
  // Drops the action if the stream captures.
  void push(std::function<void()> action);
  // Returns null unless the stream captures.
  std::shared_ptr<Capture> captures() const;
  // Makes the stream a part of the capture, or of none. Returns the latest capture that it was a part of.
  std::shared_ptr<Capture> exchange_capture(std::shared_ptr<Capture> capture);

  const int device;
  HardwareQueue& queue;
  int priority = 0;
  bool is_blocking = false;  // waits for the default stream

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Capture> capture_;  // the latest capture that the stream was a part of
};

// Returns the stream of a handle; null is the default stream of the current device.
Stream& stream_of(void* handle);
// Returns the error of a call that uses this stream. With a destroyed stream CUDA may do anything, so the simulation
// aborts the process, and names the function that called this one.
int stream_error(void* handle, const char* function = __builtin_FUNCTION());

// Returns the error that every call returns now: there is no current context, or the device has a sticky error.
int context_error();
int current_device();
void set_current_device(int device);
int device_count();
// Everything that the device does from now on fails with this error.
void break_device(int device, int error);
int sticky_error(int device);
// Blocks until everything that was put on the device's streams before is done.
void drain_device(int device);

// Returns the error of a call that may not be made while a stream captures, or success. Makes those captures invalid.
int capture_error();

// Device memory is registered, so that its pointers can be recognised. Memory that was released stays unmapped until
// the end, so that a use of it is noticed.
// allocate() returns null if no device is current. fits() returns whether the current device has so much free memory.
void* allocate(std::size_t bytes);
std::size_t device_memory();
std::size_t free_memory();
bool fits(std::size_t bytes);
bool release(void* memory);
// Returns the device of the memory, or -1.
int device_of(const void* memory);
// Returns whether a device may use the memory. If not, the device breaks with an illegal address.
bool may_use(int device, const void* memory, std::size_t bytes);

// Never returns if a test has asked for that (fake_gpu_hang).
void hang_if_asked(const char* function);

// These are numbers of things that exist now.
struct Counts {
  std::atomic<long> streams;
  std::atomic<long> events;
  std::atomic<long> blocks;  // of device memory
  std::atomic<long> pinned;
};
Counts& counts();

}  // namespace fake_gpu

extern "C" {
// Tests find these functions by name. fake_gpu_counts() returns streams, events, blocks and pinned blocks.
void fake_gpu_counts(long* four);
// From now on, calls of this driver function do not return; null lets all of them return.
void fake_gpu_hang(const char* function);
// Every later call for the device fails with this error; 0 repairs the device.
void fake_gpu_break(int device, int error);
}
