// Footer holds lines that stay below the output on a terminal, and determines which bytes draw and erase them. It is
// pure. The sequences are those of ECMA-48, which every terminal emulator understands.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/run/output/console_layout.h"

namespace ddp::launcher {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// After the lines are drawn, the cursor returns to where the output continues. So a terminal that has become narrower,
// or text that another program writes, leaves the place where the lines begin known.
class Footer {
 public:
  // Lines may contain colours. At most limits::kFooterLines are kept, with at most limits::kFooterLineBytes each.
  void set(std::vector<std::string> lines);

  bool is_shown() const { return !drawn_.empty(); }
  // Returns whether draw() would show something else than the terminal shows.
  bool is_outdated() const { return lines_ != drawn_ && !lines_.empty(); }

  // Returns the bytes that show the lines below the cursor. Lines are cut to the terminal, and at least one line of it
  // is left to the output. Returns an empty text if the place of the cursor is unknown.
  std::string draw(const CursorPlace& cursor, TerminalSize size);
  // Returns the bytes that remove the lines. Nothing else may have been shown since they were drawn.
  std::string erase();

 private:
  std::vector<std::string> lines_;
  std::vector<std::string> drawn_;
  CursorPlace cursor_;  // where it was when the lines were drawn
};

}  // namespace ddp::launcher
