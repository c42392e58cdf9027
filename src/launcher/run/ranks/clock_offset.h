// ClockOffset estimates how far another node's clock is ahead, from requests and their answers, as NTP does (RFC 5905,
// section 8).
#pragma once

#include <cstdint>
#include <vector>

namespace ddp::launcher {

// Holds the times of a request and its answer, in nanoseconds. The clocks are CLOCK_MONOTONIC of the two nodes.
struct ClockExchange {
  std::uint64_t asked_at = 0;     // this node's clock
  std::uint64_t received_at = 0;  // the other node's clock
  std::uint64_t answered_at = 0;  // the other node's clock
  std::uint64_t arrived_at = 0;   // this node's clock
};

class ClockOffset {
 public:
  // Ignores times that contradict each other.
  void add(const ClockExchange& exchange);

  bool is_known() const { return !samples_.empty(); }
  // Returns how far the other clock is ahead, from the best of the last measurements. The true value differs by
  // error() at most.
  std::int64_t ahead() const { return best().ahead; }
  std::uint64_t error() const { return error_of(best()); }

 private:
  struct Sample {
    std::int64_t ahead;
    std::uint64_t delay;  // time of both ways in the network
    std::uint64_t at;
  };

  const Sample& best() const;
  std::uint64_t error_of(const Sample& sample) const;

  std::vector<Sample> samples_;  // the latest one comes last
};

}  // namespace ddp::launcher
