#include "launcher/see/view/step_rate.h"

#include <algorithm>

namespace ddp::launcher {
namespace {

constexpr double kNanoseconds = 1e9;  // per second

}  // namespace

void StepRate::add(std::uint64_t now, std::uint64_t steps) {
  if (count_ > 0 && (steps < last().steps || now < last().time)) count_ = 0;
  if (count_ > 0 && steps == last().steps) return;
  // The last point moves until it is far enough from the one before it. So a few points cover the window.
  const bool moves = count_ > 1 && now - kept_at_ < window_ / (kPoints - 4);
  if (!moves) {
    if (count_ > 0) kept_at_ = last().time;
    if (count_ == kPoints) {
      first_ = (first_ + 1) % kPoints;
      --count_;
    }
    ++count_;
  }
  points_[(first_ + count_ - 1) % kPoints] = {now, steps};
  while (count_ > 2 && now - points_[(first_ + 1) % kPoints].time >= window_) {
    first_ = (first_ + 1) % kPoints;
    --count_;
  }
}

double StepRate::span() const {
  return count_ < 2 ? 0 : static_cast<double>(last().time - first().time) / kNanoseconds;
}

double StepRate::per_second(std::uint64_t now) const {
  if (span() <= 0) return 0;
  const auto done = static_cast<double>(last().steps - first().steps);
  const double usual = span() / done;  // time of one step
  const double idle = now <= last().time ? 0 : static_cast<double>(now - last().time) / kNanoseconds;
  if (idle <= std::max(2 * usual, 1.0)) return done / span();
  return idle < std::max(static_cast<double>(window_) / kNanoseconds, 3 * usual) ? done / (span() + idle) : 0;
}

}  // namespace ddp::launcher
