#include "launcher/see/view/quantile_sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace ddp::launcher {

std::size_t QuantileSketch::bucket_of(std::uint64_t nanoseconds) {
  const int octave = static_cast<int>(std::bit_width(nanoseconds)) - 1;
  if (octave < kFirstOctave) return 0;
  if (octave >= kFirstOctave + kOctaves) return std::size_t{kOctaves} * kParts - 1;
  // These are the bits after the highest one.
  const std::uint64_t part = (nanoseconds >> (octave - 4)) & (kParts - 1);
  return static_cast<std::size_t>(octave - kFirstOctave) * kParts + static_cast<std::size_t>(part);
}

void QuantileSketch::add(std::uint64_t nanoseconds) {
  std::uint32_t& bucket = buckets_.at(bucket_of(nanoseconds));
  if (bucket == UINT32_MAX) return;
  ++bucket;
  ++count_;
  longest_ = std::max(longest_, nanoseconds);
  shortest_ = std::min(shortest_, nanoseconds);
}

std::uint64_t QuantileSketch::quantile(double part) const {
  if (count_ == 0) return 0;
  const auto rank = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(std::clamp(part, 0.0, 1.0) * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen < rank) continue;
    const int octave = kFirstOctave + static_cast<int>(i) / kParts;
    const double middle = std::ldexp(1.0 + (static_cast<double>(i % kParts) + 0.5) / kParts, octave);
    return std::clamp(static_cast<std::uint64_t>(middle), shortest_, longest_);
  }
  return longest_;
}

}  // namespace ddp::launcher
