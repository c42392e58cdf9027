// These functions compute the norm of gradients and check whether they are finite.
#pragma once

#include <ddp/buffer.h>

namespace ddp::internal {

// Returns the sum of the squares of the elements, which have a floating-point type and lie in host memory. The sum has
// double precision and is computed in a fixed order.
double sum_of_squares(const ConstBuffer& buffer);

// Returns whether no element is infinite or NaN.
bool is_finite(const ConstBuffer& buffer);

}  // namespace ddp::internal
