// ConsoleLayout: which bytes show the workers' lines on one console, whole and each behind its tag. Pure.
#pragma once

#include <string>
#include <string_view>

#include "launcher/output/line_collapse.h"
#include "launcher/output/line_tag.h"

namespace ddp::launcher {

class ConsoleLayout {
 public:
  // On a terminal the remains of a progress bar are wiped before another rank's line; elsewhere a new line begins.
  ConsoleLayout(LineTag& tag, bool terminal) : tag_(tag), terminal_(terminal) {}

  // Appends to `out`. A part continues its line, unless another line has come between: then it gets a tag and "... ".
  void append(const OutputLine& line, std::string& out);

  // A line of the launcher itself, given without its end.
  void append_own(std::string_view line, std::string& out);

  // Ends an unfinished line or progress bar, so that whoever writes next begins a line.
  void finish(std::string& out);

 private:
  enum class Cursor { line_start, inside, after_return };

  void leave_line(std::string& out);

  LineTag& tag_;
  bool terminal_;
  Cursor cursor_ = Cursor::line_start;
  int owner_ = 0;  // the stream whose line or progress bar the cursor is in
};

}  // namespace ddp::launcher
