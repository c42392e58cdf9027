// RankBook keeps what has to be remembered of the ranks from one sample to the next: since when they do what they do.
// It turns samples into pictures, and reads no clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "launcher/run/ranks/launches.h"
#include "launcher/run/ranks/picture.h"

namespace ddp::launcher {

//   book.pass(elapsed, now);   // with each sample
//   book.add(ranks, depth);    // if the sample shows anything new
//   book.picture();
class RankBook {
 public:
  // `is_part` means that another node sees more ranks. A longer time between two samples than `longest_interval` counts
  // as one of this length.
  RankBook(bool is_part, std::chrono::nanoseconds longest_interval);

  // `elapsed` is the time since the last call. `taken_at` is CLOCK_MONOTONIC in nanoseconds, as on the status pages.
  void pass(std::chrono::nanoseconds elapsed, std::uint64_t taken_at);
  // Takes what the ranks show now, at this depth.
  void add(std::vector<RankView> ranks, SampleDepth depth);

  const Picture& picture() const { return picture_; }

 private:
  struct Blame {
    JobTime first;
    JobTime last;
  };
  void follow_stops();
  void follow_ranks(const std::vector<RankView>& before);
  void follow_groups();
  void follow_waits();
  JobTime blamed_since(const Verdict& verdict) const;

  Picture picture_;
  JobClock clock_;
  const std::chrono::nanoseconds longest_interval_;
  std::map<GroupKey, std::vector<GroupView>> groups_;  // as they were seen last
  std::map<int, ProcessSample> traced_;                // stopped processes at the last sample of processes
  std::map<int, Blame> blamed_;
  LaunchDifferences differences_;
};

}  // namespace ddp::launcher
