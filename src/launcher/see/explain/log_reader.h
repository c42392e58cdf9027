// LogReader reads one log: it gives each line to the stream of its rank. It is pure, and keeps little of the log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/see/explain/collective_records.h"
#include "launcher/see/explain/failure.h"
#include "launcher/see/explain/launcher_lines.h"
#include "launcher/see/explain/log_stream.h"
#include "launcher/see/explain/watchdog_lines.h"

namespace ddp::launcher {

// Says whether a program went on after a failure.
enum class Progress : std::uint8_t {
  none,     // nothing shows it
  perhaps,  // it printed lines that are no part of a message. They may be older than the failure, and come late
  certain,  // it has counted up in two equal lines, or has printed many
};

// Finds out whether a program went on after a failure that it has caught.
class LogProgress {
 public:
  // A failure was printed. What comes next is after it. An exception weighs more than words.
  void begin(bool is_exception);

  bool is_after_exception() const { return is_exception_; }

  // Takes a line that belongs to no report of a failure. `is_outside` says that it cannot be more of the message of
  // one. Returns what the lines after the failure show.
  Progress add(std::string_view text, bool is_outside);

 private:
  struct Shape {
    std::uint64_t without_digits = 0;
    std::uint64_t whole = 0;
    bool is_before = false;  // the failure
  };

  std::array<Shape, 32> shapes_ = {};  // of the latest lines
  std::size_t next_ = 0;
  std::size_t lines_ = 0;
  bool is_exception_ = true;
};

// What one log shows.
struct LogFindings {
  std::vector<Failure> failures;  // of all streams, in the order of their lines
  std::vector<EndOfRank> ends;
  std::vector<CollectiveRecords> records;  // of collectives
  std::set<int> ranks;                     // of which there are lines
  bool has_failed = false;                 // its launcher says that the job has failed
  std::uint64_t lines = 0;
};

struct LineSigns;

// Says which lines do not belong to the message of a failure.
enum class Outside : std::uint8_t { no_line, timed_lines, all_lines };

//   LogReader reader("train.log", std::nullopt);
//   reader.add(bytes);
//   reader.finish().failures
class LogReader {
 public:
  // `file` is the name for messages. `rank` is the one whose output the file has, if it has only one.
  LogReader(std::string file, std::optional<int> rank);

  void add(std::string_view bytes);
  LogFindings finish();

 private:
  // The output of a program, which may have a tag. PyTorch adds a rank to some of its lines.
  struct Program {
    LogProgress progress;
    bool has_failed = false;             // and has not gone on yet
    Outside outside = Outside::no_line;  // of the message of its failure
    std::uint64_t went_on_at = 0;        // the line at which it was certain that the program had gone on
    std::uint64_t may_have_gone_at = 0;  // the last line that shows it perhaps
    std::uint64_t restarted_at = 0;
  };
  struct Stream {
    LogStream log;
    Program* program = nullptr;
  };

  void add_plain(std::string_view bytes);
  std::size_t skippable(std::string_view bytes) const;
  void add_line(std::string_view line);
  void read(std::string_view plain);
  bool read_output(const LoggedLine& line, const LineSigns& signs);
  bool needs_all_lines() const;
  Standing standing_of(const Failure& failure, const Program& program) const;
  Stream& stream_of(const LoggedLine& line);
  void note_launcher(std::string_view text);
  void note_restart(std::uint64_t line);
  void note_progress(Stream& stream, const LoggedLine& line);
  void note_progress(Program& program, const LoggedLine& line);
  void note_words(std::string_view plain);
  void quote_words(std::vector<EndOfRank>& ends) const;

  std::string file_;
  std::optional<int> rank_;
  std::string sequence_;  // the begin of an escape sequence whose end has not come yet
  std::string plain_;     // the bytes that came last, without escape sequences
  std::string rest_;      // the begin of a line whose end has not come yet
  std::uint64_t number_ = 0;
  bool is_watching_ = false;  // a failure or a report may go on. Otherwise most lines need not be taken apart
  std::map<std::string, Program, std::less<>> programs_;  // by tag
  std::map<std::string, Stream, std::less<>> streams_;    // by tag, or by the rank that PyTorch writes
  LauncherLines launcher_;
  WatchdogLines watchdog_;
  std::set<int> ranks_;
  std::string words_;         // the line that a program printed last
  std::string words_of_end_;  // the same, before the launcher said that a rank has failed
};

}  // namespace ddp::launcher
