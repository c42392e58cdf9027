// LogFile: a file of workers' output. It fails once, and is then left alone. LineFilter: such a file for chosen lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/output/line_splitter.h"

namespace ddp::launcher {

// For appending; made if it is not there. A FIFO without a reader is a failure, not a wait.
base::Result<base::UniqueFd> open_log_file(const std::string& path);

// At most the last `bytes` of a file, nothing if it cannot be read; `cut`: there were more.
std::string last_bytes_of_file(const std::string& path, std::size_t bytes, bool& cut);

class LogFile {
 public:
  // `failed` gets a sentence, once.
  using Failed = std::function<void(const std::string&)>;

  LogFile() = default;
  LogFile(std::string path, base::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  explicit operator bool() const { return static_cast<bool>(fd_); }
  const std::string& path() const { return path_; }
  // All bytes, as they are; nothing after a failure.
  void write(std::string_view bytes, const Failed& failed);

 private:
  std::string path_;
  base::UniqueFd fd_;
};

// The lines of all workers that hold one of the words go to one more file. A word that lies across the parts of a line
// that is longer than limits::kLineBytes is not seen.
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
