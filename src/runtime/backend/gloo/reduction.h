// Element-wise reductions on host memory.
#pragma once

#include <ddp/buffer.h>
#include <ddp/process_group.h>

#include <cstddef>

namespace ddp {

// out[i] = a[i] (op) b[i]; `out` may be `a` or `b`. `average` sums: the division has been done before.
using ReduceFunction = void (*)(void* out, const void* a, const void* b, std::size_t count);

ReduceFunction reduce_function(DataType type, ReduceOp op);

// Multiplies every element of a floating-point buffer.
void scale(const Buffer& buffer, double factor);

}  // namespace ddp
