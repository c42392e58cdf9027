// QuarantinedNodes: hosts that were lost again and again while they took part, and when they may take part once more.
// Pure.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace ddp::launcher {

class QuarantinedNodes {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A node there was lost in the middle of an attempt.
  void was_lost(const std::string& host, TimePoint now);
  // From when on it may take part. After one loss at once; after each more of them within limits::kFlapMemory twice as
  // long after it as before, from limits::kFlapDelay to limits::kLongestFlapDelay.
  TimePoint may_return(const std::string& host) const;

 private:
  struct History {
    int losses = 0;
    TimePoint last;
  };
  std::map<std::string, History> hosts_;
};

}  // namespace ddp::launcher
