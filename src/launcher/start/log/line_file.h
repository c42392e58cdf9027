// LineFile is a file to which the launcher appends lines while a job runs: the event log, --launcher-log.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

// Every line is atomic, even if several launchers write to the same file. If a line cannot be written while the job
// runs, the job continues undisturbed. A FIFO or a terminal that accepts nothing for limits::kConsoleWait ends the
// file.
class LineFile {
 public:
  // Writes nothing if `path` is empty. `option` names the file in messages: "--event-log". Calls `warn` once if a line
  // cannot be written.
  static base::Result<LineFile> open(const std::string& option, const std::string& path,
                                     std::function<void(const std::string&)> warn);

  // Writes the first line. Returns the reason if that fails, for example because the disk is full.
  std::optional<base::Failure> begin(const std::string& line);

  // Writes nothing if the line is empty.
  void write(const std::string& line);

  // Returns true if lines are written to a file.
  bool is_open() const { return static_cast<bool>(file_); }

 private:
  std::string name_;  // for example "--event-log=events.jsonl"
  base::UniqueFd file_;
  std::function<void(const std::string&)> warn_;
};

}  // namespace ddp::launcher
