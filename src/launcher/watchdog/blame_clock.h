// BlameClock measures for how long verdicts have blamed the same ranks. A sample may fall into the moment in which a
// rank ends one wait or begins another, and a verdict from that moment blames a rank that is not late.
#pragma once

#include <chrono>
#include <map>
#include <span>

#include "launcher/watchdog/verdict.h"

namespace ddp::launcher {

class BlameClock {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  void advance(Nanoseconds elapsed) { now_ += elapsed; }
  // These verdicts are from a sample that was taken now. A rank that no verdict blames for limits::kBlameGap begins
  // again.
  void add_sample(std::span<const Verdict> verdicts);
  // Returns how long all of the verdict's culprits have been blamed. If it has no culprits, it returns how long there
  // has been such a verdict.
  Nanoseconds blamed_for(const Verdict& verdict) const;

 private:
  struct Blame {
    Nanoseconds first{0};
    Nanoseconds last{0};
  };
  Nanoseconds now_{0};
  std::map<int, Blame> by_rank_;
};

}  // namespace ddp::launcher
