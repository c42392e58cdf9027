// LineFilter: the lines of all workers that hold one of some words go to one more file. A word that lies across the
// parts of a line that is longer than limits::kLineBytes is not seen.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/log_file.h"

namespace ddp::launcher {

class LineFilter {
 public:
  explicit LineFilter(std::vector<std::string> words) : words_(std::move(words)) {}

  // There are words.
  bool wanted() const { return !words_.empty(); }
  // Where the lines go from now on; another path than before closes the file of that. Why it cannot be written, or
  // nothing.
  std::string open(const std::string& path);
  bool active() const { return static_cast<bool>(file_); }

  // `tag` makes what stands before the line. `matches`: whether the stream's current line does; kept by the caller, one
  // for each stream.
  void take(const LinePiece& piece, const std::function<std::string()>& tag, bool& matches,
            const LogFile::Failed& failed);

 private:
  std::vector<std::string> words_;
  LogFile file_;
};

}  // namespace ddp::launcher
