// ErrorRecord is what a worker wrote about its own failure (torchelastic's error.json).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/exit_status.h"
#include "launcher/run/output/python_traceback.h"

namespace ddp::launcher {

struct ErrorRecord {
  std::string message;                     // for example "ValueError: bad batch"
  bool is_secondary = false;               // it failed because it lost another rank
  bool is_mismatch = false;                // it found that ranks called different operations
  std::optional<int> peer = std::nullopt;  // the rank that it lost or that differs, if known
  // The worker wrote the record at this time, according to the file's modification time. The worker may end much later.
  std::optional<std::chrono::system_clock::time_point> written_at = std::nullopt;
  bool is_timeout = false;  // its own time-out passed while it waited for other ranks
  std::string place = {};   // place in a Python program, for example "/home/a/train.py:83 in train"
  // It lost another rank, or left the group, while it handled an exception of its own, which `message` shows. That
  // exception may be the reason, or it may be unimportant, such as StopIteration.
  bool had_own_error = false;
  bool is_after_signal = false;  // it was written after the launcher had asked the worker to end

  friend bool operator==(const ErrorRecord&, const ErrorRecord&) = default;
};

// Returns std::nullopt if the text is not such a record: it comes from another program and may be anything. This
// function is pure.
std::optional<ErrorRecord> parse_error_record(std::string_view json);

// Returns the record for a program that has printed this and left none. This function is pure.
ErrorRecord error_record_of(const PythonError& printed);

// Returns the record for a program that has left none and has just ended in this way. It may print its error and exit
// with any code. Of a program that aborts, only the loss of another rank, a rank that called something else, or a
// time-out counts: the signal says more than other texts.
std::optional<ErrorRecord> error_record_of(const std::optional<PythonError>& printed, const base::ExitStatus& status);

// Returns the time that the kernel gives to a file that is written now. It is some milliseconds coarse.
std::chrono::system_clock::time_point file_time_now();

// Returns std::nullopt if there is no such file, or if it is not a record.
std::optional<ErrorRecord> read_error_record(const std::string& path);

}  // namespace ddp::launcher
