#include "launcher/see/report/event_memory.h"

#include <utility>

namespace ddp::launcher {
namespace {

std::size_t bytes_of(const AttemptHistory& history) {
  std::size_t bytes = history.collectives.size() * sizeof(CollectiveHistory);
  for (const RankHistory& rank : history.ranks) bytes += sizeof rank + rank.strip.size() + rank.waited_for.size();
  for (const Curve& curve : history.curves) bytes += 3 * curve.mean.size() * sizeof(Curve::Points::value_type);
  return bytes;
}

}  // namespace

void EventMemory::add(std::string line) {
  const std::size_t bytes = line.size();
  if (bytes > 0) keep({std::move(line), bytes});
}

void EventMemory::add(std::string line, AttemptHistory history) {
  const std::size_t bytes = line.size() + bytes_of(history);
  const int attempt = history.attempt;
  histories_[attempt] = std::move(history);
  keep({std::move(line), bytes, attempt});
}

void EventMemory::keep(Kept kept) {
  const std::size_t most_first = most_bytes_ / 4;
  if (latest_.empty() && dropped_ == 0 && first_bytes_ + kept.bytes <= most_first) {
    first_bytes_ += kept.bytes;
    first_.push_back(std::move(kept));
    return;
  }
  latest_bytes_ += kept.bytes;
  latest_.push_back(std::move(kept));
  while (latest_bytes_ > most_bytes_ - most_first) {
    latest_bytes_ -= latest_.front().bytes;
    histories_.erase(latest_.front().attempt);
    latest_.pop_front();
    ++dropped_;
  }
}

std::vector<std::string> EventMemory::lines() const {
  std::vector<std::string> lines;
  for (const Kept& kept : first_) lines.push_back(kept.line);
  if (dropped_ > 0) lines.push_back(R"({"event":"dropped","lines":)" + std::to_string(dropped_) + "}");
  for (const Kept& kept : latest_) lines.push_back(kept.line);
  return lines;
}

}  // namespace ddp::launcher
