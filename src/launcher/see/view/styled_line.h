// Lines of a frame: StyledLine is one with colours, and the functions measure and cut text by the columns that a
// terminal uses for it. Texts are UTF-8. All of it is pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

// Returns `text` on one line, without anything that acts on a terminal (base::printable). A tab becomes a space.
std::string clean_text(std::string_view text);

// Returns how many columns a terminal uses for `text`, which must be clean. Combining characters take no column, and
// characters of East Asian scripts and most emoji take two.
int columns_of(std::string_view text);

// Returns as many whole characters of `text` as fit into `columns`. If any are left out, the text ends with '~'.
std::string cut_to(std::string_view text, int columns);

// Returns `text`, cut to `columns` and filled with spaces on the right or on the left.
std::string left_aligned(std::string_view text, int columns);
std::string right_aligned(std::string_view text, int columns);

// Returns a line for each row, in columns with two spaces between them. Spaces at the end are left out.
std::vector<std::string> aligned_rows(std::span<const std::vector<std::string>> rows);

enum class Style : std::uint8_t { plain, bold, dim, red, green, yellow, blue, magenta, cyan, alert, culprit };

class StyledLine {
 public:
  StyledLine(int columns, FrameStyle frame_style) : left_(columns), frame_style_(frame_style) {}

  // Appends a clean text, cut to the columns that are left.
  StyledLine& add(std::string_view text, Style style = Style::plain);
  StyledLine& spaces(int count) { return add(std::string(static_cast<std::size_t>(count > 0 ? count : 0), ' ')); }

  int left() const { return left_; }
  // Returns the bytes for the terminal. Spaces at the end are left out.
  std::string text() const;
  // Returns the line in reverse video over its whole width. Without colours, it is the same as text().
  std::string selected() const;

 private:
  std::string plain_;  // without styles
  std::string styled_;
  int left_;
  FrameStyle frame_style_;
};

}  // namespace ddp::launcher
