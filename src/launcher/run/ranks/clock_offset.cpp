#include "launcher/run/ranks/clock_offset.h"

#include <algorithm>

#include "launcher/limits.h"

namespace ddp::launcher {

void ClockOffset::add(const ClockExchange& exchange) {
  const std::uint64_t total = exchange.arrived_at - exchange.asked_at;
  const std::uint64_t there = exchange.answered_at - exchange.received_at;
  const bool is_possible =
      exchange.arrived_at >= exchange.asked_at && exchange.answered_at >= exchange.received_at && there <= total;
  if (!is_possible) return;
  // The differences may be negative, and wrap around without harm.
  const auto first = static_cast<std::int64_t>(exchange.received_at - exchange.asked_at);
  const auto second = static_cast<std::int64_t>(exchange.answered_at - exchange.arrived_at);
  if (samples_.size() == limits::kClockSamples) samples_.erase(samples_.begin());
  samples_.push_back({first / 2 + second / 2, total - there, exchange.arrived_at});
}

const ClockOffset::Sample& ClockOffset::best() const {
  return *std::ranges::min_element(samples_, {}, [this](const Sample& sample) { return error_of(sample); });
}

// One way may have taken all of the time. The clocks have drifted apart since.
std::uint64_t ClockOffset::error_of(const Sample& sample) const {
  const std::uint64_t age = samples_.back().at - std::min(samples_.back().at, sample.at);
  return sample.delay / 2 + 1 + age * limits::kClockDrift / 1'000'000;
}

}  // namespace ddp::launcher
