// QuantileSketch estimates quantiles of durations in fixed memory. It counts them in buckets whose bounds grow by a
// constant factor, so the relative error is at most 3 %.
#pragma once

#include <array>
#include <cstdint>

namespace ddp::launcher {

//   QuantileSketch sketch;
//   for (const Record& record : records) sketch.add(record.end - record.begin);
//   sketch.quantile(0.99);
class QuantileSketch {
 public:
  void add(std::uint64_t nanoseconds);
  std::uint64_t count() const { return count_; }
  std::uint64_t longest() const { return longest_; }

  // Returns the duration of which a share of `part` (0 to 1) are not longer, in nanoseconds. Returns 0 if there is
  // none.
  std::uint64_t quantile(double part) const;

 private:
  // Each octave from 64 ns to 2^43 ns (2.4 h) has 16 buckets.
  static constexpr int kFirstOctave = 6;
  static constexpr int kOctaves = 37;
  static constexpr int kParts = 16;

  static std::size_t bucket_of(std::uint64_t nanoseconds);

  std::array<std::uint32_t, std::size_t{kOctaves} * kParts> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t longest_ = 0;
  std::uint64_t shortest_ = UINT64_MAX;
};

}  // namespace ddp::launcher
