#include "launcher/output/python_traceback.h"

#include <algorithm>
#include <array>

namespace ddp::launcher {
namespace {

constexpr std::string_view kFrame = "  File \"";
constexpr std::array kLibraries = {
    std::string_view("/site-packages/"), std::string_view("/dist-packages/"), std::string_view("/lib/python"),
    std::string_view("/lib64/python"),   std::string_view("<frozen "),
};

// Removes a line from the front of `text`, and returns it without its end.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Turns `File "train.py", line 83, in train` into "train.py:83 in train". Returns an empty string if the line is no
// frame.
std::string place_in(std::string_view line) {
  if (!line.starts_with(kFrame)) return "";
  line.remove_prefix(kFrame.size());
  constexpr std::string_view kLine = "\", line ";
  const std::size_t at = line.find(kLine);
  if (at == std::string_view::npos) return "";
  const std::string file(line.substr(0, at));
  line.remove_prefix(at + kLine.size());
  const std::size_t number = std::min(line.find_first_not_of("0123456789"), line.size());
  const std::size_t function = line.find(", in ");
  return file + ":" + std::string(line.substr(0, number)) +
         (function == std::string_view::npos ? "" : " " + std::string(line.substr(function + 2)));
}

// Returns whether the line looks like "ValueError: words" or "KeyboardInterrupt".
bool names_exception(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(": "));
  return !name.empty() && name.find_first_of(" \t\"'()[]{}=/") == std::string_view::npos &&
         name.find_first_of("0123456789") != 0;
}

}  // namespace

bool is_library_file(std::string_view path) {
  return std::ranges::any_of(kLibraries,
                             [&](std::string_view library) { return path.find(library) != std::string_view::npos; });
}

std::optional<PythonError> last_python_error(std::string_view output) {
  const std::size_t begin = output.rfind(kTracebackBegin);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t line_begin = begin == 0 ? 0 : output.rfind('\n', begin - 1) + 1;  // 0 if there is no "\n"
  const std::string_view prefix = output.substr(line_begin, begin - line_begin);
  PythonError error;
  error.text = output.substr(line_begin);
  std::string_view rest = error.text;
  next_line(rest);
  while (!rest.empty()) {
    std::string_view line = next_line(rest);
    if (!line.starts_with(prefix)) {
      if (error.message.empty()) continue;  // another thread's line in between
      break;
    }
    line.remove_prefix(prefix.size());
    if (!error.message.empty()) {
      if (prefix.empty()) break;
      error.message += "\n" + std::string(line);
    } else if (const std::string place = place_in(line); !place.empty()) {
      if (error.place.empty() || is_library_file(error.place) || !is_library_file(place)) error.place = place;
    } else if (!line.starts_with(' ') && names_exception(line)) {
      error.message = line;
    }
  }
  if (error.message.empty()) return std::nullopt;
  return error;
}

}  // namespace ddp::launcher
