#include "launcher/start/facts/host_list.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/printable.h"
#include "base/text.h"

namespace ddp::launcher {
namespace {

struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::size_t digits = 1;  // minimum number of digits
};

// Holds text and the ranges in the brackets after it. Only the last piece of a name may have no ranges.
struct Piece {
  std::string_view text;
  std::vector<Range> ranges;
};

// Represents a part of the list before its ranges are expanded.
using Pattern = std::vector<Piece>;

std::string place(std::size_t index) {
  return "at character " + std::to_string(index + 1);
}

std::optional<std::int64_t> parse_digits(std::string_view text) {
  // std::from_chars also accepts "-0".
  if (text.empty() || text.front() == '-') return std::nullopt;
  return base::parse_integer(text, 0, std::numeric_limits<std::int64_t>::max() - 1);
}

base::Result<Range> parse_range(std::string_view part, std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::string_view first_text = text.substr(0, dash);
  const auto first = parse_digits(first_text);
  const auto last = dash == std::string_view::npos ? first : parse_digits(text.substr(dash + 1));
  if (!first || !last) {
    return wrong_host(
        part, "has " + shown(text) + " in brackets, which is neither a number nor a range. Write them as in n[1-3,5].");
  }
  if (*last < *first) {
    const auto turned = std::string(text.substr(dash + 1)) + "-" + std::string(first_text);
    return wrong_host(part, "has the range " + shown(text) + ", which counts down. Write " + shown(turned) + ".");
  }
  return Range{*first, *last, first_text.size()};
}

// `text` is the text between the brackets.
base::Result<std::vector<Range>> parse_ranges(std::string_view part, std::string_view text) {
  if (text.empty()) return wrong_host(part, "has empty brackets. Write numbers in them, as in n[1-3,5].");
  std::vector<Range> ranges;
  for (const std::string& word : base::split(text, ',')) {
    const auto range = parse_range(part, word);
    if (!range) return range.error();
    ranges.push_back(range.value());
  }
  return ranges;
}

std::optional<base::Failure> check_characters(std::string_view part) {
  if (part.front() == '-') {
    return wrong_host(part, "begins with a dash, which a host name must not do. Remove the dash.");
  }
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (is_host_character(part[i]) || part[i] == '[' || part[i] == ']' || part[i] == ',') continue;
    return wrong_host(part,
                      "has " + shown(part.substr(i, 1)) + " " + place(i) +
                          ", which is not allowed in a host name. Separate hosts by commas, without spaces or quotes.");
  }
  return std::nullopt;
}

base::Result<Pattern> parse_pattern(std::string_view part) {
  if (auto failure = check_characters(part)) return *failure;
  Pattern pattern;
  std::size_t at = 0;
  while (at < part.size()) {
    const std::size_t bracket = std::min(part.find_first_of("[]", at), part.size());
    Piece piece{part.substr(at, bracket - at), {}};
    at = bracket;
    if (bracket < part.size()) {
      if (part[bracket] == ']') {
        return wrong_host(part,
                          "has a ] " + place(bracket) + " without an opening [. Write brackets in pairs: n[1-3].");
      }
      const std::size_t end = part.find_first_of("[]", bracket + 1);
      if (end == std::string_view::npos || part[end] == '[') {
        return wrong_host(part, "has a [ " + place(bracket) + " without a closing ]. Write brackets in pairs: n[1-3].");
      }
      auto ranges = parse_ranges(part, part.substr(bracket + 1, end - bracket - 1));
      if (!ranges) return ranges.error();
      piece.ranges = std::move(ranges).value();
      at = end + 1;
    }
    pattern.push_back(std::move(piece));
  }
  return pattern;
}

// Returns the number of names that a pattern stands for, or kHosts + 1 if there are more than kHosts.
std::size_t count_names(const Pattern& pattern) {
  std::size_t product = 1;
  for (const Piece& piece : pattern) {
    std::size_t sum = piece.ranges.empty() ? 1 : 0;
    for (const Range& range : piece.ranges) {
      sum += static_cast<std::size_t>(range.last - range.first) + 1;
      if (sum > kHosts) return kHosts + 1;
    }
    product *= sum;
    if (product > kHosts) return kHosts + 1;
  }
  return product;
}

std::size_t longest_name(const Pattern& pattern) {
  std::size_t bytes = 0;
  for (const Piece& piece : pattern) {
    std::size_t digits = 0;
    for (const Range& range : piece.ranges) {
      digits = std::max({digits, range.digits, std::to_string(range.last).size()});
    }
    bytes += piece.text.size() + digits;
  }
  return bytes;
}

std::string padded(std::int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

std::vector<std::string> names_of(const Pattern& pattern) {
  std::vector<std::string> names = {""};
  for (const Piece& piece : pattern) {
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      const std::string beginning = name + std::string(piece.text);
      if (piece.ranges.empty()) longer.push_back(beginning);
      for (const Range& range : piece.ranges) {
        for (std::int64_t i = range.first; i <= range.last; ++i) longer.push_back(beginning + padded(i, range.digits));
      }
    }
    names = std::move(longer);
  }
  return names;
}

}  // namespace

bool is_host_character(char character) {
  const bool letter = (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z');
  const bool digit = character >= '0' && character <= '9';
  return letter || digit || std::string_view(".-_:%@").find(character) != std::string_view::npos;
}

std::string shown(std::string_view text, std::size_t most) {
  std::string result = "\"";
  for (const char each : text.substr(0, most)) {
    const bool is_plain = each >= ' ' && each <= '~' && each != '"' && each != '\\';
    result += is_plain ? std::string(1, each) : base::escaped(each);
  }
  return result + (text.size() > most ? "…\"" : "\"");
}

base::Failure wrong_host(std::string_view part, const std::string& why) {
  return {"host " + shown(part) + " " + why};
}

std::vector<std::string_view> split_host_list(std::string_view text) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  bool in_brackets = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') in_brackets = true;
    if (text[i] == ']') in_brackets = false;
    if (text[i] != ',' || in_brackets) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

base::Result<std::vector<std::string>> expand_host_list(std::string_view text) {
  const std::vector<std::string_view> parts = split_host_list(text);
  std::vector<Pattern> patterns;
  std::size_t count = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) {
      return base::Failure{"host " + std::to_string(i + 1) + " of the list " + shown(text) +
                           " is empty. Separate hosts by one comma each."};
    }
    auto pattern = parse_pattern(parts[i]);
    if (!pattern) return pattern.error();
    if (longest_name(pattern.value()) > kHostNameBytes) {
      return wrong_host(parts[i],
                        "is longer than " + std::to_string(kHostNameBytes) + " bytes, the limit for a host name.");
    }
    count += count_names(pattern.value());
    if (count > kHosts) {
      return base::Failure{"the host list " + shown(text) + " expands to more than " + std::to_string(kHosts) +
                           " hosts. List only the hosts of the job."};
    }
    patterns.push_back(std::move(pattern).value());
  }
  std::vector<std::string> names;
  for (const Pattern& pattern : patterns) {
    std::ranges::move(names_of(pattern), std::back_inserter(names));
  }
  return names;
}

}  // namespace ddp::launcher
