// LogStream finds the failures in the output of one rank. It is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/see/explain/failure.h"
#include "launcher/see/explain/log_line.h"
#include "launcher/start/causes/cause.h"

namespace ddp::launcher {

// The kinds of text that continue on the next lines.
enum class Report : std::uint8_t {
  none,
  python,       // a traceback
  cxx,          // std::terminate
  fatal_error,  // Python's faulthandler
};

class LogStream {
 public:
  // Takes the next line of the stream. `cause` is what the line shows by itself, or null. `begins` is the report that
  // begins with the line. `is_of_launcher` says that a launcher has printed it. Returns whether a failure ends with
  // this line.
  bool add(const LoggedLine& line, const LogPlace& at, const Cause* cause, Report begins, bool is_of_launcher);

  // The next traceback is that of a thread, or of a function at the end of the program, which goes on after it.
  void announce_thread() { is_of_thread_ = true; }

  // Returns whether the next line belongs to a report that has begun.
  bool is_in_report() const { return report_ != Report::none; }
  // Returns whether the next line may be of interest although it has no cause and begins nothing.
  bool is_reading() const { return is_in_report() || lines_since_ < kNearLines; }

  // Ends a report that is cut off.
  void finish() { end_report(); }

  const std::vector<Failure>& failures() const { return failures_; }

 private:
  static constexpr std::uint64_t kNearLines = 40;  // a cause within these lines after an exception belongs to it

  enum class Message : std::uint8_t { over, after_gap, goes_on };  // of the last exception

  void begin_report(const LoggedLine& line, const LogPlace& at, Report report, const Cause* cause);
  bool add_to_report(std::string_view text, const Cause* cause);
  void end_report();
  void note_gap(std::string_view text);
  bool continues_exception(const LoggedLine& line) const;
  void keep(Failure failure);

  std::vector<Failure> failures_;
  Report report_ = Report::none;
  std::string text_;              // of the report so far
  LogPlace begin_;                // its first line
  const Cause* cause_ = nullptr;  // what its lines show
  bool is_of_thread_ = false;     // the program goes on after it
  Message message_ = Message::over;
  bool is_of_hook_ = false;                 // PyTorch prints it for an exception that nothing has caught
  bool is_group_ = false;                   // it is that of an exception group
  bool is_linked_ = false;                  // the next traceback belongs to the last exception
  std::uint64_t lines_since_ = kNearLines;  // since the last exception
  std::optional<int> rank_;
  std::optional<int> local_rank_;
  std::optional<LogTime> time_;  // of the first line of the report, or of this line
};

}  // namespace ddp::launcher
