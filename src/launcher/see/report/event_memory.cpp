#include "launcher/see/report/event_memory.h"

#include <utility>

namespace ddp::launcher {

void EventMemory::add(std::string line) {
  if (line.empty()) return;
  const std::size_t bytes = line.size();
  const std::size_t most_first = most_bytes_ / 4;
  if (latest_.empty() && dropped_ == 0 && first_bytes_ + bytes <= most_first) {
    first_bytes_ += bytes;
    first_.push_back(std::move(line));
    return;
  }
  latest_bytes_ += bytes;
  latest_.push_back(std::move(line));
  while (latest_bytes_ > most_bytes_ - most_first) {
    latest_bytes_ -= latest_.front().size();
    latest_.pop_front();
    ++dropped_;
  }
}

std::vector<std::string> EventMemory::lines() const {
  std::vector<std::string> lines = first_;
  if (dropped_ > 0) lines.push_back(R"({"event":"dropped","lines":)" + std::to_string(dropped_) + "}");
  lines.insert(lines.end(), latest_.begin(), latest_.end());
  return lines;
}

}  // namespace ddp::launcher
