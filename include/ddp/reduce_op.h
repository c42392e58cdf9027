// ReduceOp selects how the values of all ranks are combined.
#pragma once

#include <ddp/data_type.h>
#include <ddp/export.h>

#include <cstdint>
#include <string>

namespace ddp {

// This value type names a reduction and, for premultiplied_sum, the factor:
//
//   average              each rank's values divided by the group's size, then summed, as PyTorch's
//                        DistributedDataParallel does; floating-point types
//   premultiplied_sum    each rank's values times the rank's own factor, then summed; floating-point types
//   bit_and, bit_or, bit_xor   integer types and bool
//
// Integers wrap around. With bool, sum and max are "or", product and min are "and". A NaN among floating-point values
// makes the result NaN, also with min and max. NCCL and MPI would ignore it. Therefore the nccl backend reduces
// integers in the order of the values in all_reduce. Otherwise these backends compute min and max of floating-point
// values on the host, and such a call blocks, also if it has a stream.
struct ReduceOp {
  enum Kind : std::uint8_t { sum, average, product, min, max, bit_and, bit_or, bit_xor, premultiplied_sum };

  Kind kind = sum;
  double factor = 1;  // used by premultiplied_sum; may differ between ranks

  constexpr ReduceOp(Kind kind_ = sum, double factor_ = 1) : kind(kind_), factor(factor_) {}

  static constexpr ReduceOp premultiplied(double factor) { return {premultiplied_sum, factor}; }

  friend constexpr bool operator==(const ReduceOp& a, const ReduceOp& b) {
    return a.kind == b.kind && a.factor == b.factor;
  }
};

// Returns whether the reduction is defined for this type.
constexpr bool is_defined(ReduceOp op, DataType type) {
  switch (op.kind) {
    case ReduceOp::average:
    case ReduceOp::premultiplied_sum:
      return is_floating_point(type);
    case ReduceOp::bit_and:
    case ReduceOp::bit_or:
    case ReduceOp::bit_xor:
      return !is_floating_point(type);
    default:
      return true;
  }
}

// Returns the enumerator's name, such as "sum".
DDP_EXPORT std::string_view to_string(ReduceOp::Kind kind);

}  // namespace ddp
