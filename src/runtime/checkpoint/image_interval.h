// ImageInterval decides after which steps the whole state is copied into memory, so that the copies take at most a
// share of the time (docs/development/decisions/0077-images-for-when-all-die.md). It is pure.
#pragma once

#include <array>
#include <cstdint>

namespace ddp::internal {

// All ranks count the steps since the attempt began, and call agree() with the same numbers, so they make images after
// the same steps. The interval is a power of two.
class ImageInterval {
 public:
  // `share` is the largest share of the time, such as 0.01; 0 makes no images.
  explicit ImageInterval(double share) : share_(share) {}

  bool is_due(std::int64_t steps) const { return share_ > 0 && steps > 0 && steps % every_ == 0; }
  // Returns whether the ranks agree on the interval after this many steps: at powers of two, and after images, but not
  // more often than every 16 steps.
  bool is_reviewed(std::int64_t steps) const;
  // Takes the longest time of a copy and of a step of any rank, and how long it takes to write an image to disk, in
  // seconds. The disk can follow if it needs less than two intervals. Without copies, the interval stays.
  void agree(double copy, double step, double disk);

  std::int64_t every() const { return every_; }

 private:
  double share_;
  std::int64_t every_ = 16;
};

}  // namespace ddp::internal
