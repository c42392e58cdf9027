#include "launcher/view/text_columns.h"

#include <algorithm>
#include <array>

#include "base/printable.h"

namespace ddp::launcher {
namespace {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

// These characters take no column: combining marks, joiners and variation selectors.
constexpr CharacterRange kCombining[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
                                         {0x64b, 0x65f},   {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},
                                         {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x20d0, 0x20f0},
                                         {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xe0100, 0xe01ef}};

// These characters take two columns: "W" and "F" of Unicode's East Asian Width.
constexpr CharacterRange kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x23f0, 0x23f0},
    {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267f, 0x267f},
    {0x2693, 0x2693},   {0x26a1, 0x26a1},   {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},
    {0x26ce, 0x26ce},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
    {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
    {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
    {0x27b0, 0x27b0},   {0x27bf, 0x27bf},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},
    {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97f},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},
    {0xffe0, 0xffe6},   {0x16fe0, 0x18aff}, {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf},
    {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c},
    {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4},
    {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e},
    {0x1f550, 0x1f567}, {0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f},
    {0x1f680, 0x1f6c5}, {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6d7}, {0x1f6dd, 0x1f6df},
    {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945},
    {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};

template <std::size_t kSize>
bool is_in_ranges(char32_t character, const CharacterRange (&ranges)[kSize]) {
  const auto* after = std::ranges::upper_bound(ranges, character, {}, &CharacterRange::first);
  return after != std::begin(ranges) && character <= std::prev(after)->last;
}

// Returns the character of 1 to 4 bytes that `text` begins with.
char32_t first_character(std::string_view text, std::size_t size) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  char32_t character = size == 1 ? byte(0) : byte(0) & (0xffU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) character = character << 6 | (byte(i) & 0x3fU);
  return character;
}

int width_of(char32_t character) {
  if (character < 0x300) return 1;
  if (is_in_ranges(character, kCombining)) return 0;
  return is_in_ranges(character, kWide) ? 2 : 1;
}

// Returns the bytes of the prefix that fits into `columns`, and subtracts its columns from `columns`.
std::size_t prefix_of(std::string_view text, int& columns) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t size = std::max<std::size_t>(base::printable_length(text.substr(end)), 1);
    const int width = width_of(first_character(text.substr(end), size));
    if (width > columns) break;
    columns -= width;
    end += size;
  }
  return end;
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string clean = base::printable(text);
  std::ranges::replace(clean, '\t', ' ');
  return clean;
}

int columns_of(std::string_view text) {
  constexpr int kMany = 1 << 30;
  int left = kMany;
  prefix_of(text, left);
  return kMany - left;
}

std::string cut_to(std::string_view text, int columns) {
  if (columns <= 0) return "";
  int left = columns;
  const std::size_t end = prefix_of(text, left);
  if (end == text.size()) return std::string(text);
  left = columns - 1;
  return std::string(text.substr(0, prefix_of(text, left))) + "~";
}

std::string left_aligned(std::string_view text, int columns) {
  std::string cut = cut_to(text, columns);
  return cut + std::string(static_cast<std::size_t>(std::max(columns - columns_of(cut), 0)), ' ');
}

std::string right_aligned(std::string_view text, int columns) {
  const std::string cut = cut_to(text, columns);
  return std::string(static_cast<std::size_t>(std::max(columns - columns_of(cut), 0)), ' ') + cut;
}

}  // namespace ddp::launcher
