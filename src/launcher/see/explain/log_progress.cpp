#include "launcher/see/explain/log_progress.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/hash.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kManyLines = 60;
constexpr std::size_t kManyAfterWords = 5;
constexpr std::size_t kShapeBytes = 80;  // of the begin of a line

// Several ranks may print these after a failure, one after the other.
constexpr std::string_view kOfFailures[] = {
    "rror",  "arning", "WARN", "xception",         "ailed", "exit",     "pid",    "signal", "SIG",
    "frame", "0x",     "NCCL", "xtension modules", "CUDA_", "terminat", "illing "};

bool is_ordinary(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.front() == '\t') return false;
  if (std::ranges::none_of(text, [](unsigned char c) { return std::isalnum(c) != 0; })) return false;
  // A program may write "[INFO] ". PyTorch and torchrun begin other lines with a bracket.
  if (text.front() == '[' && (text.find("] ") == std::string_view::npos || text.starts_with("[PG ID") ||
                              text.starts_with("[Rank ") || text.starts_with("[c10d]"))) {
    return false;
  }
  return std::ranges::none_of(kOfFailures, [&](std::string_view word) {
    const std::size_t at = text.find(word);
    // A progress bar may show a value such as "error=0.2".
    return at != std::string_view::npos && !text.substr(at + word.size()).starts_with('=');
  });
}

}  // namespace

void LogProgress::begin(bool is_exception) {
  for (Shape& shape : shapes_) shape.is_before = true;
  lines_ = 0;
  is_exception_ = is_exception;
}

Progress LogProgress::add(std::string_view text, bool is_outside) {
  if (!is_ordinary(text)) return Progress::none;
  if (++lines_ >= (is_exception_ ? kManyLines : kManyAfterWords)) return Progress::certain;
  Progress progress = is_outside ? Progress::perhaps : Progress::none;
  text = text.substr(0, kShapeBytes);
  std::string shape;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      shape += c;
    else if (!shape.ends_with('#'))
      shape += '#';
  }
  if (shape.find('#') == std::string::npos) return progress;
  const auto hash = [](std::string_view words) {
    base::Fnv1a64 value;
    value.update(words);
    return value.value();
  };
  const Shape now{hash(shape), hash(text)};
  for (const Shape& other : shapes_) {
    if (other.without_digits != now.without_digits || other.whole == now.whole) continue;
    progress = std::max(progress, other.is_before ? Progress::perhaps : Progress::certain);
  }
  shapes_[next_++ % shapes_.size()] = now;
  return progress;
}

}  // namespace ddp::launcher
