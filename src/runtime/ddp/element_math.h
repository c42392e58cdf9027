// ElementMath computes with the elements of a model's buffers, in host memory or in GPU memory.
#pragma once

#include <ddp/buffer.h>
#include <ddp/optimizer.h>
#include <ddp/process_group.h>
#include <ddp/stream.h>

#include <cstdint>
#include <span>
#include <string>

namespace ddp::internal {

class GpuMath;
struct UpdatedElements;

// All buffers lie in the same memory and have floating-point types. In host memory, the functions return when the work
// is done. In GPU memory, they put the work on the stream, unless a comment says otherwise. It is a value type. It must
// not outlive the group.
class ElementMath {
 public:
  // `stream` is given if and only if the buffers are in GPU memory. Throws `unavailable`, with `what` as the subject,
  // if the GPU's driver cannot load the kernels.
  ElementMath(const ProcessGroup& group, Stream stream, const std::string& what);
  // Returns whether the constructor does not throw.
  static bool is_available(const ProcessGroup& group, Stream stream);

  void scale(const Buffer& buffer, double factor) const;
  // Computes to[i] = from[i] * factor in single precision, and rounds it to the type of `to`.
  void convert(const ConstBuffer& from, const Buffer& to, double factor) const;
  // Copies between buffers of the same type.
  void copy(const ConstBuffer& from, const Buffer& to) const;
  // See update_rules.h.
  void update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements) const;

  // These functions also block in GPU memory, until the work that is on the stream now is done.
  double sum_of_squares(std::span<const Buffer> buffers) const;
  bool are_finite(std::span<const Buffer> buffers) const;

 protected:
  // Uses these kernels, or host memory if `gpu` is null.
  ElementMath(GpuMath* gpu, Stream stream) : stream_(stream), gpu_(gpu) {}
  // Returns null for host memory.
  GpuMath* gpu() const { return gpu_; }
  Stream stream() const { return stream_; }

 private:
  Stream stream_;
  GpuMath* gpu_ = nullptr;
};

// Prepares a buffer for the reduction that computes `factor` times the sum over all ranks, and returns that reduction.
//
// In GPU memory, a kernel scales the buffer on the stream, and the reduction is a plain sum. For another reduction of
// floating-point values, NCCL does not use the switches that add in the network (NVLink SHARP). If the GPU's driver
// cannot load the kernels, NCCL scales. Values of f16 are rounded after the scaling, so the smallest of them become
// subnormal or 0, as with PyTorch.
ReduceOp prepare_mean(const ProcessGroup& group, const Buffer& buffer, double factor, Stream stream);

// Returns the sum of the squares of the elements, which have a floating-point type and lie in host memory. The sum has
// double precision and is computed in a fixed order.
double sum_of_squares(const ConstBuffer& buffer);

// Returns whether no element is infinite or NaN.
bool is_finite(const ConstBuffer& buffer);

}  // namespace ddp::internal
