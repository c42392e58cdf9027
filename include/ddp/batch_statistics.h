// What a batch normalisation needs to normalise over the batches of all ranks (SyncBatchNorm).
#pragma once

#include <ddp/process_group.h>

#include <span>

namespace ddp {

// Collective. Before: of each channel this rank's mean and its variance (the mean of the squared distances, divided by
// `count`), over `count` values a channel. After: those over the values of all ranks. Returns how many values that are.
// Ranks may have different counts, 0 too (then their mean and variance do not matter). Chan, Golub, LeVeque: Updating
// formulae and a pairwise algorithm for computing sample variances, 1979; in rank order, the same bits on all ranks.
// Throws invalid_argument if the spans differ in length.
DDP_EXPORT double synchronize_batch_statistics(const ProcessGroup& group, std::span<float> mean,
                                               std::span<float> variance, double count,
                                               CallSite site = CallSite::current());
DDP_EXPORT double synchronize_batch_statistics(const ProcessGroup& group, std::span<double> mean,
                                               std::span<double> variance, double count,
                                               CallSite site = CallSite::current());

// Collective, for backward. Of each channel the sums over this rank's values of dy and of dy * (x - mean): afterwards
// those over all ranks' values. With their total count n and the variance v from above:
//   dx = w / sqrt(v + epsilon) * (dy - sum_dy / n - (x - mean) / (v + epsilon) * sum_dy_centered / n)
DDP_EXPORT void synchronize_batch_gradients(const ProcessGroup& group, std::span<float> sum_dy,
                                            std::span<float> sum_dy_centered, CallSite site = CallSite::current());
DDP_EXPORT void synchronize_batch_gradients(const ProcessGroup& group, std::span<double> sum_dy,
                                            std::span<double> sum_dy_centered, CallSite site = CallSite::current());

}  // namespace ddp
