// ConsoleLayout determines which bytes show the workers' lines on one console, each of them whole and behind its tag.
// It is pure.
#pragma once

#include <string>
#include <string_view>

#include "launcher/output/line_collapse.h"
#include "launcher/output/line_tag.h"

namespace ddp::launcher {

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

 private:
  enum class Cursor { line_start, inside, after_return };

  void leave_line(std::string& out);

  LineTag& tag_;
  bool terminal_;
  Cursor cursor_ = Cursor::line_start;
  int owner_ = 0;   // the stream whose line or progress bar the cursor is in
  int hidden_ = 0;  // updates of other progress bars since the owner's last piece
};

}  // namespace ddp::launcher
