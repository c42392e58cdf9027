// LineQueue brings lines to the console in their order, even if the console accepts nothing for a while.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "launcher/start/log/log_line.h"

namespace ddp::launcher {

//   LineQueue lines({[&](const LogLine& line) { return log.show(line); },
//                    [&](const LogLine& line) { log.show_last(line); }});
class LineQueue {
 public:
  struct Ways {
    std::function<bool(const LogLine& line)> try_to_print;     // Returns false if the console does not take it.
    std::function<void(const LogLine& line)> print_last_word;  // Waits for the console; then it drops the line.
  };

  static constexpr std::size_t kMostLines = 200;  // most waiting lines; beyond that, the oldest are counted and dropped

  explicit LineQueue(Ways ways) : ways_(std::move(ways)) {}

  // Prints the line after all waiting lines. It waits with them if the console does not accept it now.
  void say(const LogLine& line);
  // Prints the waiting lines, as far as the console accepts them now. Returns true if no line waits anymore.
  bool print();
  // Prints the waiting lines and then `line`, as last words.
  void last_word(const LogLine& line);
  // Prints the waiting lines as last words.
  void finish();

 private:
  LogLine dropped_line() const;

  Ways ways_;
  std::deque<LogLine> waiting_;
  std::int64_t dropped_ = 0;  // dropped lines that are not reported yet; they came before the waiting ones
};

}  // namespace ddp::launcher
