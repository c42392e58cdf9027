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

}  // namespace ddp::launcher
