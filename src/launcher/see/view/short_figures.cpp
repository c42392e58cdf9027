#include "launcher/see/view/short_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace ddp::launcher {
namespace {

// Returns the number with one digit after the point if it has one digit before it.
std::string with_two_digits(double number) {
  return printed(number < 9.95 ? "%.1f" : "%.0f", number);
}

}  // namespace

std::string short_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  seconds = std::max(seconds, 0.0);
  if (seconds < 0.9995) return printed("%.0fms", seconds * 1000);
  if (seconds < 59.5) return with_two_digits(seconds) + "s";
  const auto whole = static_cast<std::int64_t>(std::min(std::round(seconds), 1e12));
  const auto minutes = whole / 60;
  const auto hours = whole / 3600;
  if (hours == 0) return printed("%dm%02ds", static_cast<int>(minutes), static_cast<int>(whole % 60));
  if (hours < 24) return printed("%dh%02dm", static_cast<int>(hours), static_cast<int>(minutes % 60));
  const auto days = static_cast<int>(std::min<std::int64_t>(hours / 24, 9999));
  return days < 100 ? printed("%dd%dh", days, static_cast<int>(hours % 24)) : printed("%dd", days);
}

std::string short_bytes(double bytes) {
  if (!std::isfinite(bytes)) return "?";
  constexpr std::array kUnits = {'B', 'K', 'M', 'G', 'T', 'P', 'E'};
  bytes = std::max(bytes, 0.0);
  std::size_t unit = 0;
  while (bytes >= 1023.5 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return (unit == 0 ? printed("%.0f", bytes) : with_two_digits(std::min(bytes, 9999.0))) + kUnits.at(unit);
}

std::string short_number(double number) {
  if (!std::isfinite(number)) return "?";
  constexpr std::array kUnits = {"", "k", "M", "G", "T", "P"};
  if (std::abs(number) >= 999.5e15) return printed("%.3g", number);
  std::size_t unit = 0;
  double value = number;
  if (std::abs(number) >= 10'000) {
    while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
      value /= 1000;
      ++unit;
    }
    return printed("%.3g", value) + kUnits.at(unit);
  }
  return printed("%.4g", number);
}

std::string short_cpus(double cpus) {
  return std::isfinite(cpus) ? with_two_digits(std::clamp(cpus, 0.0, 9999.0)) : "?";
}

std::string short_percent(double share) {
  if (!std::isfinite(share)) return "?";
  return printed("%.0f%%", std::clamp(share, 0.0, 9.99) * 100);
}

std::string sparkline(const Curve::Points& points, int columns, bool has_unicode) {
  using Bars = std::array<std::string_view, 8>;
  constexpr Bars kUnicode = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr Bars kAscii = {"_", ".", "-", "=", "+", "*", "%", "#"};
  const Bars& bars = has_unicode ? kUnicode : kAscii;
  const auto first = static_cast<std::size_t>(
      std::ranges::find_if(points, [](const auto& point) { return point.has_value(); }) - points.begin());
  const std::size_t per_bar =
      (points.size() - first + static_cast<std::size_t>(columns) - 1) / static_cast<std::size_t>(columns);
  Curve::Points means;
  for (std::size_t begin = first; begin < points.size(); begin += per_bar) {
    double sum = 0;
    int count = 0;
    for (std::size_t i = begin; i < std::min(begin + per_bar, points.size()); ++i) {
      if (!points[i]) continue;
      sum += *points[i];
      ++count;
    }
    means.push_back(count == 0 ? std::nullopt : std::optional(sum / count));
  }
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  std::size_t known = 0;
  for (const auto& mean : means) {
    if (!mean) continue;
    ++known;
    least = std::min(least, *mean);
    most = std::max(most, *mean);
  }
  if (known < 2) return "";
  std::string text;
  for (const auto& mean : means) {
    if (!mean) {
      text += ' ';
      continue;
    }
    const double height = most > least ? (*mean - least) / (most - least) : 0;
    text += bars[std::min(static_cast<std::size_t>(height * bars.size()), bars.size() - 1)];
  }
  return text;
}

}  // namespace ddp::launcher
