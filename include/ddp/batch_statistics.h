// Declares the collectives with which batch normalisation covers the batches of all ranks (SyncBatchNorm).
#pragma once

#include <ddp/process_group.h>

#include <span>

namespace ddp {

// This is a collective call. On entry, `mean` and `variance` hold the statistics of each channel over this rank's
// `count` values per channel. The variance is the mean of the squared distances, divided by `count`. On return, they
// hold the statistics over the values of all ranks. Returns the number of these values.
//
// Ranks may have different counts. If a rank's count is 0, its mean and variance are ignored. The algorithm is that of
// Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979. It runs in
// rank order, so that the result is bit-identical on all ranks. Throws invalid_argument if the spans differ in length.
DDP_EXPORT double synchronize_batch_statistics(const ProcessGroup& group, std::span<float> mean,
                                               std::span<float> variance, double count,
                                               CallSite site = CallSite::current());
DDP_EXPORT double synchronize_batch_statistics(const ProcessGroup& group, std::span<double> mean,
                                               std::span<double> variance, double count,
                                               CallSite site = CallSite::current());

// This is a collective call for backward. On entry, the spans hold the sums of dy and of dy * (x - mean) over this
// rank's values, for each channel. On return, they hold the sums over the values of all ranks. The gradient dx follows
// from them, the total count n and the variance v from above:
//   dx = w / sqrt(v + epsilon) * (dy - sum_dy / n - (x - mean) / (v + epsilon) * sum_dy_centered / n)
DDP_EXPORT void synchronize_batch_gradients(const ProcessGroup& group, std::span<float> sum_dy,
                                            std::span<float> sum_dy_centered, CallSite site = CallSite::current());
DDP_EXPORT void synchronize_batch_gradients(const ProcessGroup& group, std::span<double> sum_dy,
                                            std::span<double> sum_dy_centered, CallSite site = CallSite::current());

}  // namespace ddp
