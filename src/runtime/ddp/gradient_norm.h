// The size of gradients.
#pragma once

#include <ddp/buffer.h>

namespace ddp::internal {

// The sum of the squares of the elements, of a floating-point type in host memory; summed in double precision, always
// in the same order.
double sum_of_squares(const ConstBuffer& buffer);

// Whether no element is infinite or NaN.
bool is_finite(const ConstBuffer& buffer);

}  // namespace ddp::internal
