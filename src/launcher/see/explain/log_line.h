// Takes a line of a log apart: the tags of launchers, the time, and the text of the program. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

// A time as logs write it. Logs leave out the year, the zone or the date, so that not all times can be compared.
struct LogTime {
  enum class Clock : std::uint8_t {
    utc,    // with a zone
    local,  // without one
    daily,  // without a date
  };

  Clock clock = Clock::local;
  std::int64_t microseconds =
      0;  // since the begin of the year, or of the day if the clock is daily. Months have 31 days

  friend bool operator==(const LogTime&, const LogTime&) = default;
};

// Describes one line. The texts are parts of the line.
struct LoggedLine {
  std::string_view tag;           // that of the launcher, such as "[default3]:"; empty if there is none
  std::string_view body;          // the line without the launcher's tag and time
  std::string_view text;          // the body without the prefix of PyTorch, glog or NCCL
  std::optional<int> rank;        // of the job
  std::optional<int> local_rank;  // of its node
  std::optional<LogTime> time;
};

// The line has no colours. Known tags are those of torchrun ("[default3]:"), PyTorch ("[rank3]: "), ddplaunch ("[3] "),
// srun ("3: "), mpirun ("[1,3]<stdout>: "), kubectl ("[pod/…] ") and Docker ("worker-3  | ").
LoggedLine read_line(std::string_view line);

// Returns whether a logger of the program has written the line, as an error or a warning.
bool logs_trouble(std::string_view text);

// Returns whether the line only tells about an error that the program has handled, or may have: "INFO … out of memory,
// the batch is halved", "UserWarning: …".
bool only_tells(std::string_view text);

// Formats the time for people: "11-04 12:00:03" or "12:00:03".
std::string time_text(const LogTime& time);

}  // namespace ddp::launcher
