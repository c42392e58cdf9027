// A Stream is the order on a GPU in which operations run.
#pragma once

#include <cstddef>

struct CUstream_st;  // CUDA's cudaStream_t points to this type

namespace ddp {

// Refers to a stream of this rank's GPU, or to none. This is a value type. Host memory has no streams, so omit it
// there.
//
// The program owns the stream. A group that was given it uses its handle whenever memory of the group is given back,
// also long after the last call. So a program that destroys the stream calls ProcessGroup::forget() before. To use a
// destroyed stream is undefined behavior in CUDA.
//
//   world.all_reduce(gradients, ddp::ReduceOp::sum, {.stream = stream}).wait();      // cudaStream_t stream
class Stream {
 public:
  // Refers to no stream: the operation and the program's work on the GPU then have no order.
  Stream() = default;
  // Takes a cudaStream_t; nullptr is CUDA's default stream. Calls refuse cudaStreamPerThread, which is another stream
  // on each thread.
  Stream(CUstream_st* stream) : handle_(stream), is_given_(true) {}
  Stream(std::nullptr_t) : is_given_(true) {}

  // Takes a cudaStream_t that the program keeps as another type.
  static Stream from_handle(void* stream) { return {static_cast<CUstream_st*>(stream)}; }

  explicit operator bool() const { return is_given_; }
  void* handle() const { return handle_; }

  friend bool operator==(const Stream&, const Stream&) = default;

 private:
  void* handle_ = nullptr;
  bool is_given_ = false;
};

}  // namespace ddp
