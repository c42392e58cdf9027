// LauncherLines reads what launchers say about the end of a job: torchrun, srun, mpirun and ddplaunch. It is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/explain/failure.h"

namespace ddp::launcher {

// Returns texts, one of which is in each line that begins to say something.
const std::vector<std::string_view>& words_of_launchers();

class LauncherLines {
 public:
  // Takes a line that contains one of the words, or any line while is_reading() is true.
  void add(std::string_view text, const LogPlace& at);
  // Returns whether the next lines belong to what has begun.
  bool is_reading() const { return lines_left_ > 0; }

  // Returns what was said about ranks, in the order of the lines.
  const std::vector<EndOfRank>& ends() const { return ends_; }
  // Returns whether the job has failed, according to its launcher.
  bool has_failed() const { return has_failed_; }
  // The launcher has started the program again, or another job follows in the log.
  void forget() { has_failed_ = false; }

 private:
  std::vector<EndOfRank> ends_;
  bool has_failed_ = false;
  std::optional<LogTime> time_;  // in the table of torchrun
  int lines_left_ = 0;           // of the table of torchrun or mpirun
};

}  // namespace ddp::launcher
