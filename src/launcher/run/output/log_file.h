// LogFile is a file for workers' output. After its first failure, nothing more is written to it. LineFilter is such a
// file for selected lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/run/output/line_splitter.h"

namespace ddp::launcher {

// Opens a file for appending, and creates it if necessary. A FIFO without a reader is a failure, not a wait.
base::Result<base::UniqueFd> open_log_file(const std::string& path);

// Returns at most the last `bytes` of a file, or an empty string if it cannot be read. Sets `cut` if there were more.
std::string last_bytes_of_file(const std::string& path, std::size_t bytes, bool& cut);

class LogFile {
 public:
  // `failed` is called once, with a sentence.
  using Failed = std::function<void(const std::string&)>;

  LogFile() = default;
  LogFile(std::string path, base::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  explicit operator bool() const { return static_cast<bool>(fd_); }
  const std::string& path() const { return path_; }
  // Writes all bytes unchanged. After a failure, writes nothing.
  void write(std::string_view bytes, const Failed& failed);

 private:
  std::string path_;
  base::UniqueFd fd_;
};

// Writes the lines of all workers that contain one of the words to one more file. A word is not found if it crosses the
// parts of a line that is longer than limits::kLineBytes.
class LineFilter {
 public:
  explicit LineFilter(std::vector<std::string> words) : words_(std::move(words)) {}

  // Returns whether there are words.
  bool wanted() const { return !words_.empty(); }
  // Sets the path of the file from now on. If it differs from the previous path, the previous file is closed. Returns
  // why the file cannot be written, or an empty string.
  std::string open(const std::string& path);
  bool active() const { return static_cast<bool>(file_); }

  // `tag` returns the text before the line. `matches` says whether the stream's current line matches; the caller keeps
  // one for each stream.
  void take(const LinePiece& piece, const std::function<std::string()>& tag, bool& matches,
            const LogFile::Failed& failed);

 private:
  std::vector<std::string> words_;
  LogFile file_;
};

}  // namespace ddp::launcher
