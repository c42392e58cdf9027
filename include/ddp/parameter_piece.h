// ParameterPiece is a part of a parameter, with its gradient, which an optimizer updates.
#pragma once

#include <ddp/buffer.h>

#include <cstddef>

namespace ddp {

// Holds views of `values.count` elements, from element `first` on, of parameter number `parameter` and its gradient.
// This is a value type.
struct ParameterPiece {
  std::size_t parameter = 0;
  std::size_t first = 0;
  Buffer values;
  Buffer gradient;
};

}  // namespace ddp
