#include "launcher/explain/log_progress.h"

#include <algorithm>
#include <string>

#include "base/hash.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kManyLines = 60;
constexpr std::size_t kManyAfterWords = 5;
constexpr std::size_t kShapeBytes = 80;  // of the begin of a line

// Several ranks may print these after a failure, one after the other.
constexpr std::string_view kOfFailures[] = {"rror",   "arning", "WARN",  "xception", "ailed", "exit",     "pid",
                                            "signal", "SIG",    "frame", "0x",       "NCCL",  "terminat", "illing "};

bool is_ordinary(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.front() == '\t') return false;
  // A program may write "[INFO] ". PyTorch and torchrun begin other lines with a bracket.
  if (text.front() == '[' && (text.find("] ") == std::string_view::npos || text.starts_with("[PG ID") ||
                              text.starts_with("[Rank ") || text.starts_with("[c10d]"))) {
    return false;
  }
  return std::ranges::none_of(kOfFailures,
                              [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace

void LogProgress::begin(bool is_exception) {
  *this = {};
  is_exception_ = is_exception;
}

bool LogProgress::add(std::string_view text) {
  if (!is_ordinary(text)) return false;
  if (++lines_ >= (is_exception_ ? kManyLines : kManyAfterWords)) return true;
  text = text.substr(0, kShapeBytes);
  std::string shape;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      shape += c;
    else if (!shape.ends_with('#'))
      shape += '#';
  }
  if (shape.find('#') == std::string::npos) return false;
  const auto hash = [](std::string_view words) {
    base::Fnv1a64 value;
    value.update(words);
    return value.value();
  };
  const Shape now{hash(shape), hash(text)};
  const bool counts = std::ranges::any_of(shapes_, [&](const Shape& before) {
    return before.without_digits == now.without_digits && before.whole != now.whole;
  });
  shapes_[next_++ % shapes_.size()] = now;
  return counts;
}

}  // namespace ddp::launcher
