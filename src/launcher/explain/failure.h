// What a log shows of a failed job. These are values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/causes/cause.h"
#include "launcher/explain/log_line.h"

namespace ddp::launcher {

// A line of a file.
struct LogPlace {
  std::string file;
  std::uint64_t line = 0;  // counts from 1; 0 if the file has no lines

  friend auto operator<=>(const LogPlace&, const LogPlace&) = default;
};

struct Failure {
  std::optional<int> rank;        // of the job
  std::optional<int> local_rank;  // if only that is known
  LogPlace at;
  std::optional<LogTime> time;  // that its line says
  std::string message;          // the exception, or the line
  std::string place;            // in the program, such as "train.py:83 in step"; empty if unknown
  const Cause* cause = nullptr;
  bool is_exception = false;    // it was an exception of Python or C++, and not only words
  bool is_from_main = false;    // its traceback begins in the main module, as if nothing has caught the exception
  bool is_of_launcher = false;  // a launcher says it, and not the program
  bool is_of_thread = false;    // of a thread other than the main one, or of the end of the program
  bool is_abort = false;        // the process aborted, which often follows another failure
  bool is_cut_off = false;      // its traceback is cut off
  bool went_on = false;         // the program went on afterwards

  // Returns what the failure proves about its rank. A failure of an unknown kind is one of the rank itself.
  Proof proof() const { return cause == nullptr ? Proof::failure : cause->proof; }
};

// What a launcher says about the rank that failed first.
struct EndOfRank {
  std::optional<int> rank;        // of the job
  std::optional<int> local_rank;  // if only that is known
  std::string text;               // "exit code 1", "killed by signal 9", or a verdict of ddplaunch on a hang
  std::string quoted = {};        // the error of the rank that ddplaunch quotes, or its last line
  bool is_error_quoted = false;   // it is its error
  const Cause* cause = nullptr;   // what the quoted lines show
  bool is_own = false;            // ddplaunch says it, which looks for the rank that failed by itself
  bool is_hang = false;           // the text is a verdict on a hang
  LogPlace at;
  std::optional<LogTime> time = {};  // of the failure, as torchrun says it
};

}  // namespace ddp::launcher
