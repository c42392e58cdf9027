// Stream: the order on a GPU in which an operation runs.
#pragma once

#include <cstddef>

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddp {

// A value: a stream of this rank's GPU, or none. The stream stays the program's, and must live until what is put on it
// is done. Host memory has no streams: there it is left out.
//
//   world.all_reduce(gradients, ddp::ReduceOp::sum, {.stream = stream}).wait();      // cudaStream_t stream
class Stream {
 public:
  // None: the operation and the program's work on the GPU have no order.
  Stream() = default;
  // A cudaStream_t; nullptr is CUDA's default stream.
  Stream(CUstream_st* stream) : handle_(stream), is_given_(true) {}
  Stream(std::nullptr_t) : is_given_(true) {}

  // The same for programs that keep it as another type.
  static Stream from_handle(void* stream) { return {static_cast<CUstream_st*>(stream)}; }

  explicit operator bool() const { return is_given_; }
  void* handle() const { return handle_; }

  friend bool operator==(const Stream&, const Stream&) = default;

 private:
  void* handle_ = nullptr;
  bool is_given_ = false;
};

}  // namespace ddp
