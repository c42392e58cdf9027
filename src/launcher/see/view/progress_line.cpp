#include "launcher/see/view/progress_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/run/output/terminal_text.h"
#include "launcher/see/view/short_figures.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostName = 24;  // bytes; wire::RingValue has as many

// Returns the name of a rate without its end, or an empty text if the name is not that of a rate.
std::string_view counted_by_rate(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEnds = {"/s", "_per_s", "_per_sec", "_per_second"};
  for (const std::string_view end : kEnds) {
    if (name.size() > end.size() && name.ends_with(end)) return name.substr(0, name.size() - end.size());
  }
  return {};
}

std::string value_text(const ProgressValue& value) {
  const std::string name = base::printable(value.name, kMostName);
  const std::string_view counted = counted_by_rate(name);
  if (counted.empty()) return name + " " + progress_number(value.value);
  return progress_number(value.value) + " " + std::string(counted) + "/s";
}

// Returns the exponent of ten after the number was rounded to `digits` digits behind the first one.
int exponent_of(double number, int digits) {
  const std::string text = printed("%.*e", digits, number);
  return std::atoi(text.c_str() + text.find('e') + 1);
}

// Exponents have no leading zeros: "1.500e-5".
std::string scientific(double number) {
  std::string text = printed("%.3e", number);
  const std::size_t digits = text.find('e') + 2;
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

}  // namespace

std::string progress_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  constexpr double kMostPlain = 10'000;
  constexpr double kLeastPlain = 0.001;
  const double size = std::abs(number);
  if (number == std::floor(number) && size < kMostPlain) return printed("%.0f", number);
  if (size < kLeastPlain) return scientific(number);
  if (const int exponent = exponent_of(number, 3); exponent < 4) return printed("%.*f", 3 - exponent, number);
  constexpr std::string_view kUnits = "kMGT";
  const int exponent = exponent_of(number, 2);
  const int thousands = exponent / 3;
  if (static_cast<std::size_t>(thousands) > kUnits.size()) return scientific(number);
  const double scaled = number / std::pow(1000, thousands);
  return printed("%.*f%c", 2 - exponent % 3, scaled, kUnits[static_cast<std::size_t>(thousands) - 1]);
}

std::string progress_duration(double seconds) {
  constexpr double kMostSeconds = 57.5;
  constexpr double kMost = 1e9;  // more than 30 years; nothing is known about them
  if (!(seconds < kMost)) return "more than 30 years";
  if (seconds < kMostSeconds) return printed("%.0f s", std::max(std::ceil(seconds / 5) * 5, 5.0));
  const auto minutes = static_cast<std::int64_t>(std::max(std::round(seconds / 60), 1.0));
  if (minutes < 60) return std::to_string(minutes) + " min";
  const std::int64_t fives = (minutes + 2) / 5 * 5;
  if (fives < 24 * 60) {
    return std::to_string(fives / 60) + " h" + (fives % 60 == 0 ? "" : " " + std::to_string(fives % 60) + " min");
  }
  const std::int64_t hours = (minutes + 30) / 60;
  return std::to_string(hours / 24) + " d" + (hours % 24 == 0 ? "" : " " + std::to_string(hours % 24) + " h");
}

std::string progress_line(const JobSnapshot& job, std::size_t columns) {
  if (job.step == 0 && !job.total_steps && job.values.empty()) return "";
  std::vector<std::string> before;
  std::vector<std::string> values;
  std::vector<std::string> after;
  if (job.step > 0 || job.total_steps) {
    const std::string total = job.total_steps ? "/" + std::to_string(*job.total_steps) : "";
    before.push_back("step " + std::to_string(job.step) + total);
  }
  for (const ProgressValue& value : job.values) values.push_back(value_text(value));
  if (values.empty() && job.steps_per_second > 0) {
    values.push_back(progress_number(job.steps_per_second) + " steps/s");
  }
  if (job.eta) after.push_back("eta " + progress_duration(*job.eta));
  while (true) {
    std::vector<std::string> parts = before;
    base::append(parts, values);
    base::append(parts, after);
    const std::string line = base::join(parts, "  ");
    const auto width = column_after(line, 0);
    if (values.empty() || (width && *width <= columns)) return fit_to_columns(line, columns);
    values.pop_back();
  }
}

}  // namespace ddp::launcher
