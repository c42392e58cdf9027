// Gives a libtorch without CUDA the device "cuda", over the GPU in software (support/fake_gpu). Operators run
// libtorch's code for CPUs on the stream's thread, so that the host runs ahead of the device as with CUDA. Memory comes
// from a caching allocator with the rules of libtorch's: a freed block belongs to the stream on which it was allocated,
// and the next allocation on this stream gets it at once.
//
// Supported are operators whose results' shapes do not depend on the values of their inputs. Linking device.cpp,
// allocator.cpp and operators.cpp into a program is enough.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <functional>
#include <future>
#include <memory>

namespace software_torch {

// Returns the driver's handle of a stream.
void* handle_of(const c10::Stream& stream);
// Makes a stream beside the default stream of the device. It is never destroyed.
c10::Stream make_stream(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);

// Puts a function on a stream.
void put(const c10::Stream& stream, std::function<void()> action);
// Blocks until the work on the stream is done.
void synchronize(const c10::Stream& stream);

// Makes the driver's context of a device current on this thread.
void use_context(c10::DeviceIndex device);

// Stops a stream until it is opened. The destructor opens it.
class Gate {
 public:
  explicit Gate(const c10::Stream& stream);
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open();

 private:
  std::promise<void> opened_;
  bool is_open_ = false;
};

// Counts what the host did since the start of the program.
struct HostCalls {
  int synchronizations = 0;  // waits of the host for a stream
  int event_queries = 0;
};
HostCalls host_calls();

// Returns whether the block of memory that begins here is allocated. A cached block is not.
bool is_allocated(const void* block);
// Counts the blocks that were given out again after they had been freed.
std::size_t reused_blocks();

namespace internal {

void count_synchronization();
void count_event_query();
c10::DataPtr allocate(std::size_t bytes);
void record_stream(const void* block, const c10::Stream& stream);

}  // namespace internal
}  // namespace software_torch
