// EventMemory keeps the lines of an event log, for a report. Its memory is bounded: if there are too many lines, those
// in the middle are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "launcher/see/view/history_data.h"

namespace ddp::launcher {

//   EventMemory memory;
//   memory.add(line);           // each line of the event log
//   memory.add(line, history);  // the event `history`
//   read_run(memory.lines(), "", memory.histories())
class EventMemory {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  // A quarter of the bytes is for the first lines, and the rest for the latest ones.
  explicit EventMemory(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // Keeps nothing if the line is empty. A line that is too long is dropped.
  void add(std::string line);
  // Keeps the history as a value. The line names its attempt, and need not contain anything else of it.
  void add(std::string line, AttemptHistory history);

  // Returns the kept lines in their order. If lines were dropped, a line {"event":"dropped","lines":N} is in their
  // place, which is not part of the event log.
  std::vector<std::string> lines() const;
  // Returns the histories of the kept lines, by attempt.
  const std::map<int, AttemptHistory>& histories() const { return histories_; }

 private:
  struct Kept {
    std::string line;
    std::size_t bytes;  // with those of the history
    int attempt = -1;   // of the history
  };
  void keep(Kept kept);

  std::size_t most_bytes_;
  std::vector<Kept> first_;
  std::deque<Kept> latest_;
  std::map<int, AttemptHistory> histories_;
  std::size_t first_bytes_ = 0;
  std::size_t latest_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace ddp::launcher
