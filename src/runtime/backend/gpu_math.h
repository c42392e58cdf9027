// GpuMath computes with the elements of buffers in GPU memory.
// See docs/development/decisions/0044-kernels-as-ptx-text.md.
#pragma once

#include <ddp/buffer.h>
#include <ddp/optimizer.h>
#include <ddp/stream.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/reduction/matrix_shape.h"
#include "runtime/reduction/optimizer_step.h"

namespace ddp::internal {

// Unless a comment says otherwise, a function puts its work on the stream and returns before the work is done. Every
// buffer lies in the memory of this rank's GPU and has elements of a floating-point type (f16, bf16, f32, f64). f16 and
// bf16 are computed in f32 and rounded once, to the nearest, ties to even. The results are bit-identical in every run,
// so that ranks that compute the same stay equal. Any thread may call a function, one at a time per stream. Functions
// throw `internal` with CUDA's name for an error.
class GpuMath {
 public:
  virtual ~GpuMath() = default;

  // Computes values[i] *= factor.
  virtual void scale(const Buffer& values, double factor, Stream stream) = 0;
  // Computes to[i] = from[i] * factor in the type of `to`. The buffers have equally many elements and do not overlap.
  virtual void convert(const ConstBuffer& from, const Buffer& to, double factor, Stream stream) = 0;
  // Computes to[i] += from[i] * factor for f32. An element of `from` that is not finite counts as 0 if `only_finite` is
  // set.
  virtual void add(const ConstBuffer& from, double factor, bool only_finite, const Buffer& to, Stream stream) = 0;

  // These functions block until the work that is on the stream now is done.
  virtual double sum_of_squares(std::span<const ConstBuffer> buffers, Stream stream) = 0;
  virtual bool are_finite(std::span<const ConstBuffer> buffers, Stream stream) = 0;

  // Applies one step of an optimizer, as update() in update_rules.h does in host memory.
  virtual void update(const Optimizer::Options& options, std::int64_t step, const UpdatedElements& elements,
                      Stream stream) = 0;

  // Selects the indices.count elements of `values` (f32, at most 2^32) with the largest magnitudes. Of equal magnitudes
  // it takes the first; a NaN counts as infinite. `indices` (i32, read as unsigned) ascends, and picked[k] is
  // values[indices[k]] (f32). The selected elements of `values` become 0.
  virtual void take_largest(const Buffer& values, const Buffer& indices, const Buffer& picked, Stream stream) = 0;
  // Computes to[indices[k]] += values[k] * factor (f32). No index occurs twice.
  virtual void scatter_add(const ConstBuffer& indices, const ConstBuffer& values, double factor, const Buffer& to,
                           Stream stream) = 0;

  // These functions compute the products of low_rank.h, in f32.
  virtual void multiply(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& q, const Buffer& p,
                        Stream stream) = 0;
  virtual void multiply_transposed(const MatrixShape& shape, const ConstBuffer& m, const ConstBuffer& p,
                                   const Buffer& q, Stream stream) = 0;
  virtual void expand(const MatrixShape& shape, const ConstBuffer& p, const ConstBuffer& q, const Buffer& m,
                      Stream stream) = 0;
  virtual void orthonormalise(const MatrixShape& shape, const Buffer& p, Stream stream) = 0;
  // Copies a column of `fallback` to Q if that column of Q is 0, or has an element that is not finite.
  virtual void replace_columns(const MatrixShape& shape, const ConstBuffer& fallback, const Buffer& q,
                               Stream stream) = 0;

  // The stream will be destroyed. Gives back what was kept for it.
  virtual void forget(Stream stream) = 0;
};

}  // namespace ddp::internal
