#include "base/printable.h"

#include <algorithm>
#include <array>

namespace ddp::base {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// These are control characters, separators, the Arabic letter mark, and the direction marks.
constexpr std::array<Range, 7> kActing = {Range{0x00, 0x08}, {0x0a, 0x1f},     {0x7f, 0x9f},    {0x61c, 0x61c},
                                          {0x200e, 0x200f},  {0x2028, 0x202e}, {0x2066, 0x2069}};

bool acts_on_terminal(char32_t character) {
  return std::any_of(kActing.begin(), kActing.end(),
                     [&](const Range& range) { return character >= range.first && character <= range.last; });
}

}  // namespace

std::string escaped(char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return {'\\', 'x', kDigits[value / 16], kDigits[value % 16]};
}

std::size_t printable_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t size = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || size > text.size()) return 0;
  char32_t character = size == 1 ? first : first & (0xffU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};  // by size; smaller ones have a shorter form
  const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
  if (character < kLeast[size] || character > 0x10ffff || is_surrogate) return 0;
  return acts_on_terminal(character) ? 0 : size;
}

std::string printable(std::string_view text, std::size_t most) {
  constexpr std::string_view kRest = "...";
  std::string shown;
  std::size_t fits = 0;  // the prefix of `shown` that is kept if the text is cut
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = printable_length(text.substr(i));
    shown += length == 0 ? escaped(text[i]) : text.substr(i, length);
    i += std::max<std::size_t>(length, 1);
    if (shown.size() > most) return shown.substr(0, fits) + std::string(kRest.substr(0, most - fits));
    if (shown.size() + kRest.size() <= most) fits = shown.size();
  }
  return shown;
}

}  // namespace ddp::base
