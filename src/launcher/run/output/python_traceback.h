// Finds the exception that a Python program has printed before it ended. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

inline constexpr std::string_view kTracebackBegin = "Traceback (most recent call last)";

struct PythonException {
  std::string message;     // "ValueError: no such column"; several lines if all have the traceback's prefix
  std::string place;       // "/home/a/train.py:83 in train"; empty if the traceback has no frame
  bool is_member = false;  // it is one of an exception group
  std::string text = {};   // its traceback, its whole message, and what was printed before the next traceback
};

struct PythonError {
  std::string message;  // of the last exception
  std::string place;
  std::string text;  // the output from the first traceback of `chain` on, without colours
  std::vector<PythonException>
      chain;  // __cause__ or __context__ comes before its exception, a group before its members
};

// Returns whether the line looks like the last one of a traceback: "ValueError: words" or "KeyboardInterrupt".
bool names_exception(std::string_view line);

// Returns whether a path belongs to Python's own library or to an installed package.
bool is_library_file(std::string_view path);

// Returns the error of the last traceback in a program's output, or std::nullopt if there is none. The traceback may be
// Python's own, that of an exception group, of rich or of IPython. PyTorch puts "[rank1]: " before each line. The place
// is the innermost frame outside of installed packages and Python's own library, or the innermost frame if there is no
// such frame.
std::optional<PythonError> last_python_error(std::string_view output);

// Returns the place in what Python's faulthandler has written upon a fatal signal, or an empty string if there is none.
// It is a place of the thread that got the signal, or of the main thread if that one runs no Python. Before the last
// such text there may be those of child processes.
std::string place_of_crash(std::string_view stacks);

// Returns the exception with which the C++ library has ended the process (std::terminate), or std::nullopt if there is
// none.
std::optional<PythonError> last_cxx_error(std::string_view output);

}  // namespace ddp::launcher
