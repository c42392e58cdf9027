#include "launcher/see/top/keys.h"

#include <algorithm>

#include "base/printable.h"

namespace ddp::launcher {
namespace {

using Kind = Key::Kind;

constexpr std::size_t kLongestSequence = 16;

struct Sequence {
  std::string_view bytes;  // after ESC [ or ESC O
  Kind kind;
};

// These are the sequences of xterm, the Linux console, rxvt and screen.
constexpr Sequence kSequences[] = {
    {"A", Kind::up},       {"B", Kind::down},       {"H", Kind::home},  {"F", Kind::end},
    {"1~", Kind::home},    {"4~", Kind::end},       {"7~", Kind::home}, {"8~", Kind::end},
    {"5~", Kind::page_up}, {"6~", Kind::page_down}, {"M", Kind::enter},
};

Kind control_key(char c) {
  if (c == '\r' || c == '\n') return Kind::enter;
  if (c == '\x7f' || c == '\b') return Kind::backspace;
  return c == '\f' ? Kind::redraw : Kind::other;
}

bool is_final(char c) {
  return c >= '@' && c <= '~';
}

// Returns the bytes of the sequence that `bytes`, which begins with ESC, begins with. Returns 0 if it is unfinished.
std::size_t sequence_length(std::string_view bytes) {
  if (bytes.size() < 2) return 0;
  if (bytes[1] == 'O') return bytes.size() < 3 ? 0 : 3;
  if (bytes[1] != '[') return 1;
  for (std::size_t i = 2; i < std::min(bytes.size(), kLongestSequence); ++i) {
    if (is_final(bytes[i])) return i + 1;
  }
  return bytes.size() < kLongestSequence ? 0 : kLongestSequence;
}

Key sequence_key(std::string_view sequence) {
  if (sequence.size() < 3) return {Kind::escape, ""};
  const auto* known = std::ranges::find(kSequences, sequence.substr(2), &Sequence::bytes);
  return {known == std::end(kSequences) ? Kind::other : known->kind, ""};
}

// Returns whether `bytes` may become a character when more bytes come.
bool is_unfinished_character(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
  return bytes.size() < size &&
         std::ranges::all_of(bytes.substr(1), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
}

}  // namespace

std::vector<Key> KeyReader::add(std::string_view bytes) {
  rest_ += bytes;
  std::vector<Key> keys;
  std::string_view left = rest_;
  while (!left.empty()) {
    std::size_t used = 1;
    if (left[0] == '\x1b') {
      used = sequence_length(left);
      if (used == 0) break;
      keys.push_back(sequence_key(left.substr(0, used)));
    } else if (const std::size_t length = base::printable_length(left); length > 0 && left[0] != '\t') {
      used = length;
      keys.push_back({Kind::text, std::string(left.substr(0, used))});
    } else if (is_unfinished_character(left)) {
      break;
    } else {
      keys.push_back({control_key(left[0]), ""});
    }
    left.remove_prefix(used);
  }
  rest_ = std::string(left);
  return keys;
}

std::vector<Key> KeyReader::decide() {
  if (!is_undecided()) return {};
  rest_.clear();
  return {{Kind::escape, ""}};
}

}  // namespace ddp::launcher
