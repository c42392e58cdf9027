// StepRate measures how many steps a rank or a job does per second. It is pure: the caller passes the time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddp::launcher {

class StepRate {
 public:
  // Steps count that were done within `window`. If a step takes longer than that, the latest steps count.
  explicit StepRate(std::chrono::nanoseconds window) : window_(static_cast<std::uint64_t>(window.count())) {}

  // `now` is CLOCK_MONOTONIC in nanoseconds. `steps` is the number of steps so far. If it is smaller than before, it
  // counts something else, and the measurement begins again.
  void add(std::uint64_t now, std::uint64_t steps);

  // The rate falls while no step ends for longer than usual, and is 0 after the window.
  double per_second(std::uint64_t now) const;
  // Returns the time between the first and the last step that count, in seconds.
  double span() const;

 private:
  static constexpr std::size_t kPoints = 12;
  struct Point {
    std::uint64_t time = 0;  // when the number was seen first
    std::uint64_t steps = 0;
  };
  const Point& first() const { return points_[first_]; }
  const Point& last() const { return points_[(first_ + count_ - 1) % kPoints]; }

  std::uint64_t window_;
  std::array<Point, kPoints> points_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t kept_at_ = 0;  // time of the point before the last one, from which the distance of points counts
};

}  // namespace ddp::launcher
