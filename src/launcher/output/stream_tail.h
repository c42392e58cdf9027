// StreamTail: the last bytes of a worker's stream, for the lines that a failure summary shows. Pure.
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
  // At least the last `bytes`, or all there was.
  std::string_view kept() const { return kept_; }
  // Bytes that were there before kept().
  bool cut() const { return cut_; }

 private:
  std::size_t bytes_;
  std::string kept_;
  bool cut_ = false;
};

// The last lines of a text that are not blank, for a reader's eyes: of a progress bar its last state, no escape
// sequences, other control characters and bytes that are no UTF-8 as "\xNN", at most `bytes` bytes each (then with
// "..." at the end). `cut`: the text begins in the middle of a line, which is left out unless it is the only one.
std::vector<std::string> last_lines_of(std::string_view text, bool cut, std::size_t lines, std::size_t bytes);

}  // namespace ddp::launcher
