#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

namespace ddp::base {

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t minimum, std::int64_t maximum) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < minimum || value > maximum) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

namespace {

std::string format_number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> above;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substitution});
      const bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::optional<std::string> nearest_match(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  // If more than a third of the letters differ, it is another word: "foo" is not a mistyped "gloo".
  std::size_t best_distance =
      std::min(std::max<std::size_t>(1, (word.size() + 1) / 3), word.empty() ? 0 : word.size() - 1) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

namespace {

// `between` separates two ranges, and `between_two` two consecutive ranks.
std::string list_of_ranges(std::span<const int> ranks, const char* between, const char* between_two) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += between;
    text += std::to_string(ranks[first]);
    if (last > first) text += (last == first + 1 ? between_two : "-") + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace

void append(std::vector<std::string>& texts, std::span<const std::string> more) {
  texts.insert(texts.end(), more.begin(), more.end());
}

std::vector<std::string> words(std::string_view text, std::string_view spaces) {
  std::vector<std::string> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
    if (text.empty()) return words;
    words.emplace_back(text.substr(0, text.find_first_of(spaces)));
    text.remove_prefix(words.back().size());
  }
}

std::string trimmed(std::string_view text, std::string_view spaces) {
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  return std::string(text.substr(0, text.find_last_not_of(spaces) + 1));
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::string rank_list(std::span<const int> ranks) {
  return list_of_ranges(ranks, ", ", ", ");
}

std::string ranks_text(const std::vector<int>& ranks) {
  return plural(ranks.size(), "rank ", "ranks ") + rank_list(ranks);
}

std::string ranks_text(const std::vector<int>& ranks, const char* one, const char* several) {
  return ranks_text(ranks) + " " + plural(ranks.size(), one, several);
}

std::string rank_clause(const std::string& list, const char* one, const char* several) {
  if (list.empty()) return "";
  // A "-" at the end is no range.
  const int count = list.find_first_of(",-") < list.size() - 1 ? 2 : 1;
  return plural(count, "; rank ", "; ranks ") + list + " " + plural(count, one, several);
}

std::string short_rank_list(std::span<const int> ranks) {
  return list_of_ranges(ranks, ",", "-");
}

std::string human_duration(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 0.0995) return format_number("%.0f ms", seconds * 1e3);
  if (seconds < 59.95) return format_number("%.1f s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const auto two_units = [](std::int64_t large, const char* first, std::int64_t small, const char* second) {
    const std::string text = std::to_string(large) + first;
    return small == 0 ? text : text + " " + std::to_string(small) + second;
  };
  if (whole < 3600) return two_units(whole / 60, " min", whole % 60, " s");
  return two_units(whole / 3600, " h", whole % 3600 / 60, " min");
}

// Each unit is 1024 times the previous one.
constexpr std::array<std::string_view, 5> kByteUnits = {"B", "KiB", "MiB", "GiB", "TiB"};

std::string human_bytes(std::uint64_t bytes) {
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kByteUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  const bool whole = value >= 10 || value == std::floor(value);
  std::snprintf(text.data(), text.size(), whole ? "%.0f %s" : "%.1f %s", value, kByteUnits[unit].data());
  return text.data();
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view unit = text.substr(digits);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto lower = [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < kByteUnits.size(); ++i) {
    const bool none = i == 0 && digits == text.size();
    if (!none && !std::ranges::equal(unit, kByteUnits[i], {}, lower, lower)) continue;
    const auto number = parse_integer(text.substr(0, digits), 0, kMost >> (10 * i));
    if (!number) return std::nullopt;
    return static_cast<std::uint64_t>(*number) << (10 * i);
  }
  return std::nullopt;
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) return std::string(word);
  std::string result = "'";
  for (const char letter : word) result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + plural(count, "", noun.ends_with("s") ? "es" : "s");
}

std::string counted(std::int64_t count, std::string_view noun, const char* one, const char* several) {
  return counted(count, noun) + " " + plural(count, one, several);
}

}  // namespace ddp::base
