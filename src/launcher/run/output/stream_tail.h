// StreamTail keeps the last bytes of a worker's stream, for the lines in a failure summary. It is pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

class StreamTail {
 public:
  explicit StreamTail(std::size_t bytes) : bytes_(bytes) {}

  void add(std::string_view chunk);
  // Returns at least the last `bytes`, or everything if there were fewer.
  std::string_view kept() const { return kept_; }
  // Returns whether there were bytes before kept().
  bool cut() const { return cut_; }

 private:
  std::size_t bytes_;
  std::string kept_;
  bool cut_ = false;
};

// Returns the last lines of a text that are not blank, in readable form. A progress bar is reduced to its last state,
// and escape sequences are removed. Other control characters, and bytes that are not UTF-8, become "\xNN". A line has
// at most `bytes` bytes; a longer one ends with "...". `cut` means that the text begins in the middle of a line, which
// is left out unless it is the only one.
std::vector<std::string> last_lines_of(std::string_view text, bool cut, std::size_t lines, std::size_t bytes);

}  // namespace ddp::launcher
