// Files that machines read while and after a job runs: the event log and the summary.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

// Appends lines to a file; every line is whole, also when several launchers write the same file. What cannot be written
// once the job runs does not disturb it: a FIFO or a terminal that takes nothing for limits::kConsoleWait ends the log.
class EventLog {
 public:
  // Without a path it writes nothing. `warn` is told once when a line cannot be written.
  static base::Result<EventLog> open(const std::string& path, std::function<void(const std::string&)> warn);

  // Writes the first line. The reason, if that cannot be done: the disk is full, say.
  std::optional<base::Failure> begin(const std::string& line);

  // Nothing for "".
  void write(const std::string& line);

  // Whether lines go anywhere.
  bool is_open() const { return static_cast<bool>(file_); }

  // Whether `path` is the same ordinary file. Not for our own output: there one may say several things.
  bool is_same_file(const std::string& path) const;

 private:
  std::string path_;
  base::UniqueFd file_;
  std::function<void(const std::string&)> warn_;
};

// Replaces the file by `text`: readers see the old one or the whole new one, which has the old one's permissions. The
// reason, if that cannot be done; then the old one is untouched. A symbolic link to a file stays one. What exists and
// is no ordinary file (a FIFO with a reader), or is our own output (/dev/stderr), is written to as it is; one that
// takes nothing for limits::kConsoleStall is given up.
std::optional<base::Failure> write_report(const std::string& path, const std::string& text, const std::string& what);

// Whether write_report() could do that now, as far as one can know without doing it. Leaves nothing behind.
std::optional<base::Failure> check_report(const std::string& path, const std::string& what);

}  // namespace ddp::launcher
