#include "launcher/run/output/stream_tail.h"

#include <algorithm>

#include "base/printable.h"

namespace ddp::launcher {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Returns the length of the escape sequence at the front, or 0 if there is none. It is ESC [ parameters final, or ESC
// and one character (colours, cursor movements).
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\x1b') return 0;
  if (text[1] != '[') return text[1] >= 0x30 && text[1] < 0x5a ? 2 : 0;
  std::size_t end = 2;
  while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
  return end < text.size() && text[end] >= 0x40 && text[end] < 0x7f ? end + 1 : 0;
}

std::string readable(std::string_view text, std::size_t bytes) {
  constexpr std::string_view kMore = "...";
  std::string shown;
  std::size_t fits = 0;  // length that is kept if more comes than fits
  while (!text.empty()) {
    if (shown.size() + kMore.size() <= bytes) fits = shown.size();
    if (const std::size_t escape = escape_length(text); escape > 0) {
      text.remove_prefix(escape);
      continue;
    }
    const std::size_t length = std::max<std::size_t>(base::printable_length(text), 1);
    shown += base::printable(text.substr(0, length));
    text.remove_prefix(length);
    if (shown.size() > bytes) return shown.substr(0, fits) + std::string(kMore);
  }
  return shown;
}

// Returns roughly what a terminal would show of a line with "\r" in it: the last state that is not blank.
std::string_view last_state(std::string_view line) {
  while (!line.empty()) {
    const std::size_t begin = line.rfind('\r') + 1;  // 0 if there is no "\r"
    if (!is_blank(line.substr(begin))) return line.substr(begin);
    line = line.substr(0, begin == 0 ? 0 : begin - 1);
  }
  return line;
}

}  // namespace

void StreamTail::add(std::string_view chunk) {
  if (chunk.size() >= bytes_) {
    cut_ = cut_ || !kept_.empty() || chunk.size() > bytes_;
    kept_.assign(chunk.substr(chunk.size() - bytes_));
    return;
  }
  // The kept text may have twice the size, so that not every chunk moves the rest.
  if (kept_.size() + chunk.size() > 2 * bytes_) {
    kept_.erase(0, kept_.size() - bytes_);
    cut_ = true;
  }
  kept_.append(chunk);
}

std::vector<std::string> last_lines_of(std::string_view text, bool cut, std::size_t lines, std::size_t bytes) {
  std::vector<std::string> found;
  while (!text.empty() && found.size() < lines) {
    const std::size_t end = text.back() == '\n' ? text.size() - 1 : text.size();
    const std::size_t begin = end == 0 ? 0 : text.rfind('\n', end - 1) + 1;  // 0 if there is no "\n"
    const std::string_view line = last_state(text.substr(begin, end - begin));
    const bool whole = begin > 0 || !cut || found.empty();
    if (!line.empty() && whole) found.push_back(readable(line, bytes));
    text = text.substr(0, begin);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace ddp::launcher
