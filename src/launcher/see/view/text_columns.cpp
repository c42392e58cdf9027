#include "launcher/see/view/text_columns.h"

#include <algorithm>

#include "base/printable.h"
#include "launcher/run/output/terminal_text.h"

namespace ddp::launcher {
namespace {

// Returns the bytes of the prefix that fits into `columns`, and subtracts its columns from `columns`.
std::size_t prefix_of(std::string_view text, int& columns) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t size = std::max<std::size_t>(base::printable_length(text.substr(end)), 1);
    const int width = static_cast<int>(columns_of_character(text.substr(end, size)));
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
