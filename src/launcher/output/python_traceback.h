// Finds the exception that a Python program has printed before it ended. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

inline constexpr std::string_view kTracebackBegin = "Traceback (most recent call last):";

struct PythonError {
  std::string message;  // "ValueError: no such column"; several lines if all of them have the traceback's prefix
  std::string place;    // "/home/a/train.py:83 in train"; empty if the traceback has no frame
  std::string text;     // the output from the traceback on
};

// Returns whether a path belongs to Python's own library or to an installed package.
bool is_library_file(std::string_view path);

// Returns the error of the last traceback in a program's output, or std::nullopt if there is none. PyTorch puts
// "[rank1]: " before each of its lines. The place is the innermost frame outside of installed packages and Python's own
// library, or the innermost frame if there is no such frame.
std::optional<PythonError> last_python_error(std::string_view output);

}  // namespace ddp::launcher
