// Makes pictures of ranks without a RankBook, for tests and benchmarks of those that read pictures.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "launcher/run/ranks/picture.h"

namespace ddp::launcher {

// `elapsed` is the time since the picture before, and `taken_at` is CLOCK_MONOTONIC in nanoseconds.
inline Picture made_picture(std::vector<RankView> ranks, std::chrono::nanoseconds elapsed, std::uint64_t taken_at) {
  Picture picture;
  picture.taken_at = taken_at;
  picture.elapsed = elapsed;
  picture.has_news = true;
  picture.moments = moments_of(ranks);
  picture.ranks = std::move(ranks);
  return picture;
}

// Nothing but the time differs from the picture before.
inline Picture unchanged_picture(std::chrono::nanoseconds elapsed, std::uint64_t taken_at) {
  Picture picture;
  picture.taken_at = taken_at;
  picture.elapsed = elapsed;
  return picture;
}

}  // namespace ddp::launcher
