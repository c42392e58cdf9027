// ErrorRecord: what a worker wrote about its own failure (torchelastic's error.json).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/output/python_traceback.h"

namespace ddp::launcher {

struct ErrorRecord {
  std::string message;                     // "ValueError: bad batch"
  bool is_secondary = false;               // it failed because it lost another rank
  bool is_mismatch = false;                // it found that ranks call different things
  std::optional<int> peer = std::nullopt;  // the rank that it lost, or that differs, if it knows
  // When the worker wrote it, by the file's time of modification; that of its end may be much later.
  std::optional<std::chrono::system_clock::time_point> written_at = std::nullopt;
  bool is_timeout = false;  // a time-out of its own passed while it waited for others
  std::string place = {};   // in a Python program: "/home/a/train.py:83 in train"

  friend bool operator==(const ErrorRecord&, const ErrorRecord&) = default;
};

// Pure. Nothing if the text is not such a record: it comes from another program and may be anything.
std::optional<ErrorRecord> parse_error_record(std::string_view json);

// Pure. Of a Python program that has left no record.
ErrorRecord error_record_of(const PythonError& printed);

// Nothing if there is no such file, or it is not a record.
std::optional<ErrorRecord> read_error_record(const std::string& path);

}  // namespace ddp::launcher
