#include "base/duration.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace ddp::base {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr std::array kUnits = {Unit{"h", 3600}, Unit{"m", 60}, Unit{"s", 1}, Unit{"ms", 0.001}};
constexpr std::string_view kNumber = "0123456789.";

}  // namespace

std::optional<std::chrono::duration<double>> parse_duration(std::string_view text) {
  using Seconds = std::chrono::duration<double>;
  if (const auto seconds = parse_number(text)) return Seconds(*seconds);
  if (text.empty()) return std::nullopt;
  double total = 0;
  const Unit* next = kUnits.begin();
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of(kNumber), text.size());
    const auto number = parse_number(text.substr(0, digits));
    text.remove_prefix(digits);
    const std::size_t letters = std::min(text.find_first_of(kNumber), text.size());
    const Unit* unit =
        std::find_if(next, kUnits.end(), [&](const Unit& each) { return each.name == text.substr(0, letters); });
    if (!number || unit == kUnits.end()) return std::nullopt;
    total += *number * unit->seconds;
    next = unit + 1;
    text.remove_prefix(letters);
  }
  return Seconds(total);
}

}  // namespace ddp::base
