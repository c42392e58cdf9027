// LogProgress finds out whether a program went on after a failure that it has caught. It is pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp::launcher {

class LogProgress {
 public:
  // A failure was printed. What was printed before does not count. An exception weighs more than words.
  void begin(bool is_exception);

  bool is_after_exception() const { return is_exception_; }

  // Takes a line that came after the failure, and belongs to no report of one. Returns whether it is certain from the
  // lines so far that the program went on: they have counted up in two equal lines, or there are many of them.
  bool add(std::string_view text);

 private:
  struct Shape {
    std::uint64_t without_digits = 0;
    std::uint64_t whole = 0;
  };

  std::array<Shape, 32> shapes_ = {};  // of the latest lines
  std::size_t next_ = 0;
  std::size_t lines_ = 0;
  bool is_exception_ = true;
};

}  // namespace ddp::launcher
