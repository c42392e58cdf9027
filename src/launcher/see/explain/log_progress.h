// LogProgress finds out whether a program went on after a failure that it has caught. It is pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp::launcher {

// Says whether a program went on after a failure.
enum class Progress : std::uint8_t {
  none,     // nothing shows it
  perhaps,  // it printed lines that are no part of a message. They may be older than the failure, and come late
  certain,  // it has counted up in two equal lines, or has printed many
};

class LogProgress {
 public:
  // A failure was printed. What comes next is after it. An exception weighs more than words.
  void begin(bool is_exception);

  bool is_after_exception() const { return is_exception_; }

  // Takes a line that belongs to no report of a failure. `is_outside` says that it cannot be more of the message of
  // one. Returns what the lines after the failure show.
  Progress add(std::string_view text, bool is_outside);

 private:
  struct Shape {
    std::uint64_t without_digits = 0;
    std::uint64_t whole = 0;
    bool is_before = false;  // the failure
  };

  std::array<Shape, 32> shapes_ = {};  // of the latest lines
  std::size_t next_ = 0;
  std::size_t lines_ = 0;
  bool is_exception_ = true;
};

}  // namespace ddp::launcher
