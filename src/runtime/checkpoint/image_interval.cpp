#include "runtime/checkpoint/image_interval.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ddp::internal {

constexpr std::int64_t kFirstReview = 32;
constexpr std::int64_t kReviewStep = 16;
constexpr double kLongest = 1 << 30;  // steps

bool ImageInterval::is_reviewed(std::int64_t steps) const {
  const bool is_after_image = is_due(steps) && steps % kReviewStep == 0;
  return share_ > 0 && steps >= kFirstReview &&
         (is_after_image || std::has_single_bit(static_cast<std::uint64_t>(steps)));
}

void ImageInterval::agree(double copy, double step, double disk) {
  if (!(copy > 0 || disk > 0) || !(step > 0)) return;
  const double needed = std::clamp(std::ceil(std::max(copy / (share_ * step), disk / step)), 1.0, kLongest);
  every_ = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(needed)));
}

}  // namespace ddp::internal
