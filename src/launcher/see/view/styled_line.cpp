#include "launcher/see/view/styled_line.h"

#include <array>

#include "launcher/see/view/text_columns.h"

namespace ddp::launcher {
namespace {

// Holds the parameters of SGR sequences (ECMA-48) by style. These colours follow the theme of the terminal.
constexpr std::array<std::string_view, 11> kSequences = {"",   "1",  "2",  "31",   "32",     "33",
                                                         "34", "35", "36", "1;31", "1;37;41"};

}  // namespace

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
