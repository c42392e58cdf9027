// MatrixShape is the shape of a low-rank approximation: M ~ P transpose(Q).
#pragma once

#include <cstddef>

namespace ddp::internal {

struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;  // number of columns of P and Q
};

}  // namespace ddp::internal
