// Maps floating-point values to integers in the same order, so that a minimum or maximum of integers keeps a NaN.
#pragma once

#include <ddp/buffer.h>

namespace ddp::internal {

// Returns the type of the integers: i64 for f64, i32 for f32, f16 and bf16.
constexpr DataType ordered_type(DataType type) {
  return type == DataType::f64 ? DataType::i64 : DataType::i32;
}

// Writes an integer for each value of `from`. A NaN becomes the largest integer that stands for a value, or the
// smallest one. -0 comes before 0.
void to_ordered(const ConstBuffer& from, bool nan_is_largest, const Buffer& to);
// Writes the value for each integer that to_ordered() wrote.
void from_ordered(const ConstBuffer& from, const Buffer& to);

}  // namespace ddp::internal
