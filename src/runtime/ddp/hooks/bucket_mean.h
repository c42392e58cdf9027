// The reduction that makes a bucket's mean.
#pragma once

#include <ddp/extension/communication_hook.h>
#include <ddp/reduce_op.h>

namespace ddp::internal {

// The same bits as ReduceOp::average where that is meant.
inline ReduceOp bucket_mean(const GradientBucket& bucket, int size) {
  return bucket.factor == 1.0 / size ? ReduceOp(ReduceOp::average) : ReduceOp::premultiplied(bucket.factor);
}

}  // namespace ddp::internal
