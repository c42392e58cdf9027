// All messages about the output of the workers.
#pragma once

#include <cstdint>
#include <string>

#include "base/text.h"

namespace ddp::launcher {

inline std::string no_log_file_text(const std::string& path, const std::string& reason) {
  return "cannot write to the log file " + path + ": " + reason + ". Use another --log-dir.";
}
inline std::string log_file_ends_text(const std::string& path, const std::string& reason) {
  return "cannot write to the log file " + path + ": " + reason + ". The file ends here; the job continues.";
}
inline std::string no_pipe_text(const std::string& reason) {
  return "cannot make a pipe for a worker's output: " + reason + ". Raise the limit of open files (ulimit -n).";
}
inline std::string no_console_text(const std::string& reason) {
  return "cannot write to the console: " + reason + ". The job continues without it.";
}
inline std::string lost_lines_text(std::int64_t lines, bool lossless) {
  return "ddplaunch: warning: " + base::counted(lines, "line", "was", "were") +
         " not shown, because the console was too slow (--log-dir keeps them" +
         (lossless ? "; other nodes are not held back)" : ", --lossless waits)");
}

}  // namespace ddp::launcher
