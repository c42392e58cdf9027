// Files that machines read while and after a job runs: the event log and the summary. What cannot be written is told
// once and does not disturb the job.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

// Appends lines to a file; every line is whole, also when several launchers write the same file.
class EventLog {
 public:
  // Without a path it writes nothing. `warn` is told once when a line cannot be written.
  static base::Result<EventLog> open(const std::string& path, std::function<void(const std::string&)> warn);

  void write(const std::string& line);

 private:
  std::string path_;
  base::UniqueFd file_;
  std::function<void(const std::string&)> warn_;
};

// Replaces the file by `text`: readers see the old one or the whole new one. The reason, if that cannot be done. What
// exists and is no ordinary file (/dev/stderr, a FIFO with a reader) is written to as it is.
std::optional<base::Failure> write_report(const std::string& path, const std::string& text);

}  // namespace ddp::launcher
