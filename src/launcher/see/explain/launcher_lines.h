// LauncherLines reads what launchers say about the end of a job: torchrun, srun, mpirun and ddplaunch. It is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/see/explain/failure.h"

namespace ddp::launcher {

// Returns whether the line is one of ddplaunch itself.
inline bool is_own_line(std::string_view text) {
  return text.starts_with("ddplaunch: ");
}

// Returns texts, one of which is in each line that begins to say something.
const std::vector<std::string_view>& words_of_launchers();

// Returns whether a launcher has written the line, and not a program that quotes one.
bool is_said_by_launcher(std::string_view text);

class LauncherLines {
 public:
  // Takes a line that contains one of the words, a line of ddplaunch, or any line while is_reading() is true.
  void add(std::string_view text, const LogPlace& at);
  // Returns whether the next lines belong to what has begun.
  bool is_reading() const { return lines_left_ > 0; }

  // Returns what was said about ranks, in the order of the lines.
  const std::vector<EndOfRank>& ends() const { return ends_; }
  // Returns whether the job has failed, according to its launcher.
  bool has_failed() const { return has_failed_; }
  // Returns the line before which an attempt has failed, if the launcher has started the program again, or 0. It
  // returns each restart once.
  std::uint64_t take_restart() { return std::exchange(restarted_at_, 0); }
  // The launcher has started the program again after this line, or another job follows in the log.
  void forget(std::uint64_t line) {
    has_failed_ = false;
    std::erase_if(ends_, [&](const EndOfRank& end) { return end.at.line <= line; });
  }

 private:
  void add_own(std::string_view text, const LogPlace& at);
  void add_to_table(std::string_view text, const LogPlace& at);
  void keep(EndOfRank end, const LogPlace& at);

  std::vector<EndOfRank> ends_;
  bool has_failed_ = false;
  std::uint64_t restarted_at_ = 0;
  std::uint64_t failed_at_ = 0;  // the line in which torchrun has said that an attempt failed
  std::optional<LogTime> time_;  // in the table of torchrun
  int lines_left_ = 0;           // of the table of torchrun or mpirun
};

}  // namespace ddp::launcher
