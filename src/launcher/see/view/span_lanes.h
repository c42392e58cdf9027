// SpanLanes places spans of time on lanes, so that two spans of one lane are apart or one lies within the other. A
// viewer shows each lane as a row.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ddp::launcher {

// Spans come in any order, but those of about the same time come together: a lane remembers the latest ones only.
class SpanLanes {
 public:
  explicit SpanLanes(int count = 1) : lanes_(static_cast<std::size_t>(count)) {}

  // Returns the first lane on which the span fits, or std::nullopt if there is none.
  std::optional<int> place(std::uint64_t begin, std::uint64_t end);

 private:
  struct Span {
    std::uint64_t begin;
    std::uint64_t end;
  };
  struct Lane {
    std::vector<Span> spans;            // the latest ones that were placed
    std::uint64_t latest_end = 0;       // of all spans
    std::uint64_t forgotten_until = 0;  // latest end of the spans that are not remembered
    std::size_t next = 0;               // place in `spans` of the oldest one

    bool place(const Span& span);
    void add(const Span& span);
  };

  std::vector<Lane> lanes_;
};

}  // namespace ddp::launcher
