#include "launcher/see/view/styled_line.h"

#include <algorithm>
#include <array>

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

// Holds the parameters of SGR sequences (ECMA-48) by style. These colours follow the theme of the terminal.
constexpr std::array<std::string_view, 11> kSequences = {"",   "1",  "2",  "31",   "32",     "33",
                                                         "34", "35", "36", "1;31", "1;37;41"};

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

std::vector<std::string> aligned_rows(std::span<const std::vector<std::string>> rows) {
  std::vector<int> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string& line = lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) line += (i == 0 ? "" : "  ") + left_aligned(row[i], widths[i]);
    line.resize(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

StyledLine& StyledLine::add(std::string_view text, Style style) {
  const std::string cut = cut_to(text, left_);
  left_ -= columns_of(cut);
  plain_ += cut;
  const std::string_view sequence = frame_style_.has_colours ? kSequences.at(static_cast<std::size_t>(style)) : "";
  if (sequence.empty() || cut.find_first_not_of(' ') == std::string::npos) {
    styled_ += cut;
  } else {
    styled_.append("\x1b[").append(sequence).append("m").append(cut).append("\x1b[0m");
  }
  return *this;
}

std::string StyledLine::text() const {
  return styled_.substr(0, styled_.find_last_not_of(' ') + 1);
}

std::string StyledLine::selected() const {
  if (!frame_style_.has_colours) return text();
  return "\x1b[7m" + plain_ + std::string(static_cast<std::size_t>(left_ > 0 ? left_ : 0), ' ') + "\x1b[0m";
}

}  // namespace ddp::launcher
