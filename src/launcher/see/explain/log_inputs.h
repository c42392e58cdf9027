// Finds and reads the files that `ddplaunch explain` is given.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/see/explain/log_reader.h"

namespace ddp::launcher {

struct LogInput {
  std::string path;         // "-" for the standard input
  std::optional<int> rank;  // the one whose output the file has, as its name says
  bool is_named = false;    // the user has named it, and not only its directory
};

// Returns the rank that the path of a file names, as in "logs/3/stderr.log", "rank_3.out" or "log.3".
std::optional<int> rank_in_path(std::string_view path);

// Returns the files: those of a directory in the order of their names. Returns the reason if one cannot be found.
base::Result<std::vector<LogInput>> find_log_inputs(std::span<const std::string> inputs);

// What the files show.
struct FilesRead {
  std::vector<LogFindings> logs;
  std::vector<std::string> notes;  // files that were not read, and why
};

// Reads all files. Returns the reason if a file that the user has named cannot be read.
base::Result<FilesRead> read_log_inputs(std::span<const LogInput> files);

}  // namespace ddp::launcher
