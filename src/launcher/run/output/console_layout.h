// ConsoleLayout determines which bytes show the workers' lines on one console, each of them whole and behind its tag.
// It is pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/output/line_collapse.h"
#include "launcher/run/output/line_tag.h"

namespace ddp::launcher {

// Says where the cursor of a terminal is.
struct CursorPlace {
  bool is_at_line_start = true;           // its line shows nothing, neither an unfinished line nor a progress bar
  std::optional<std::size_t> column = 0;  // std::nullopt if it is unknown
};

class ConsoleLayout {
 public:
  // On a terminal, the rest of a progress bar is wiped before another rank's line. Elsewhere a new line begins.
  ConsoleLayout(LineTag& tag, bool terminal) : tag_(tag), terminal_(terminal) {}

  // Appends to `out`. A part continues its line. If another line has come in between, it gets a tag and "... ".
  void append(const OutputLine& line, std::string& out);

  // Appends a line of the launcher itself, given without its end.
  void append_own(std::string_view line, std::string& out);

  // Ends an unfinished line or progress bar, so that the next output begins a line.
  void finish(std::string& out);

  // Returns the place of the cursor after all output so far. `column` may be larger than the terminal.
  CursorPlace cursor() const;
  // Returns whether a worker has moved the cursor to other lines. From then on, the place of the cursor is unknown.
  bool has_moved_cursor() const { return has_moved_cursor_; }

 private:
  enum class Cursor { line_start, inside, after_return };

  void leave_line(std::string& out);
  bool hides(const LinePiece& other);
  void begin_line(const OutputLine& line, std::string& out);
  // `shown` begins in the column `from`, and ends with the piece.
  void follow_cursor(const LinePiece& piece, std::string_view shown, std::optional<std::size_t> from);

  LineTag& tag_;
  bool terminal_;
  Cursor cursor_ = Cursor::line_start;
  std::optional<std::size_t> column_ = 0;  // of the cursor inside a line; only on a terminal
  bool has_moved_cursor_ = false;
  int owner_ = 0;   // the stream whose line or progress bar the cursor is in
  int hidden_ = 0;  // updates of other progress bars since the owner's last piece
};

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// Footer holds lines that stay below the output on a terminal, and determines which bytes draw and erase them. It is
// pure. The sequences are those of ECMA-48, which every terminal emulator understands.
//
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
