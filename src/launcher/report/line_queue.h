// LineQueue: lines that reach the console in their order, also where it takes nothing for a while.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "launcher/log/log_line.h"

namespace ddp::launcher {

//   LineQueue lines({[&](const LogLine& line) { return log.show(line); },
//                    [&](const LogLine& line) { log.show_last(line); }});
class LineQueue {
 public:
  struct Ways {
    std::function<bool(const LogLine& line)> try_to_print;     // Returns false if the console does not take it.
    std::function<void(const LogLine& line)> print_last_word;  // Waits for the console; then it drops the line.
  };

  static constexpr std::size_t kMostLines = 200;  // that wait; of more, the oldest are dropped and counted

  explicit LineQueue(Ways ways) : ways_(std::move(ways)) {}

  // Prints the line after all that wait. It waits with them if the console does not take it now.
  void say(const LogLine& line);
  // Prints what waits, as far as the console takes it now. Returns true if nothing waits any more.
  bool print();
  // Prints what waits, and then the line, as last words.
  void last_word(const LogLine& line);
  // Prints what waits as last words.
  void finish();

 private:
  LogLine dropped_line() const;

  Ways ways_;
  std::deque<LogLine> waiting_;
  std::int64_t dropped_ = 0;  // not reported yet; all of them were before those that wait
};

}  // namespace ddp::launcher
