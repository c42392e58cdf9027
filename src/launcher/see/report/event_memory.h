// EventMemory keeps the lines of an event log, for a report. Its memory is bounded: if there are too many lines, those
// in the middle are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace ddp::launcher {

//   EventMemory memory;
//   memory.add(line);  // each line of the event log
//   const std::vector<std::string> lines = memory.lines();
class EventMemory {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  // A quarter of the bytes is for the first lines, and the rest for the latest ones.
  explicit EventMemory(std::size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // Keeps nothing if the line is empty. A line that is too long is dropped.
  void add(std::string line);

  // Returns the kept lines in their order. If lines were dropped, a line {"event":"dropped","lines":N} is in their
  // place, which is not part of the event log.
  std::vector<std::string> lines() const;

 private:
  std::size_t most_bytes_;
  std::vector<std::string> first_;
  std::deque<std::string> latest_;
  std::size_t first_bytes_ = 0;
  std::size_t latest_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace ddp::launcher
