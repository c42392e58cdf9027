// What a log shows of a failed job. These are values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/see/explain/log_line.h"
#include "launcher/start/causes/cause.h"

namespace ddp::launcher {

// A line of a file.
struct LogPlace {
  std::string file;
  std::uint64_t line = 0;  // counts from 1; 0 if the file has no lines

  friend auto operator<=>(const LogPlace&, const LogPlace&) = default;
};

// Says what a failure looks like in the log.
enum class Form : std::uint8_t {
  words,      // a line by itself
  exception,  // of Python
  crash,      // the process ended by a signal in compiled code
  abort,      // the process aborted, which often follows another failure
  fragment,   // a traceback that is cut off
};

// Says whether a failure ended its program. Of several, the highest one did.
enum class Standing : std::uint8_t {
  restarted,  // no: the launcher started the program again
  went_on,    // no: the program went on afterwards
  in_thread,  // no: it was in a thread other than the main one, or in a function at the end of the program
  printed,    // perhaps: a traceback of a function, which the program itself has printed
  said,       // perhaps: words, which may be those of an error that was handled
  in_main,    // yes, if nothing but more about failures came after it: its traceback begins in the main module
  uncaught,   // yes: the process crashed, PyTorch's hook for uncaught exceptions has printed it, or a launcher says it
};

struct Failure {
  std::optional<int> rank;        // of the job
  std::optional<int> local_rank;  // if only that is known
  LogPlace at;
  std::optional<LogTime> time;  // that its line says
  std::string message;          // the exception, or the line
  std::string place;            // in the program, such as "train.py:83 in step"; empty if unknown
  const Cause* cause = nullptr;
  Form form = Form::words;
  Standing standing = Standing::said;

  // Returns whether a launcher says it, and not the program.
  bool is_of_launcher() const { return form == Form::words && standing == Standing::uncaught; }
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
