// A Curve shows one number of a training over the time of an attempt. It is a value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

// The columns have equal width. Their numbers are finite, and std::nullopt if nothing is known.
struct Curve {
  using Points = std::vector<std::optional<double>>;
  std::string name;  // kStepsCurve, kMemoryCurve, kGpuMemoryCurve, or the name of a value that the program reports
  Points mean;       // over the time of the column
  Points least;      // these two are empty for steps per second
  Points most;

  friend bool operator==(const Curve&, const Curve&) = default;
};
inline constexpr std::string_view kStepsCurve = "steps/s";
inline constexpr std::string_view kMemoryCurve = "memory";
inline constexpr std::string_view kGpuMemoryCurve = "GPU memory";

}  // namespace ddp::launcher
