// StyledLine is one line of a frame, with colours. It never has more columns than the terminal.
#pragma once

#include <string>
#include <string_view>

#include "launcher/see/view/top_view.h"

namespace ddp::launcher {

enum class Style : std::uint8_t { plain, bold, dim, red, green, yellow, blue, magenta, cyan, alert, culprit };

class StyledLine {
 public:
  StyledLine(int columns, FrameStyle frame_style) : left_(columns), frame_style_(frame_style) {}

  // Appends a clean text (see text_columns.h), cut to the columns that are left.
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
