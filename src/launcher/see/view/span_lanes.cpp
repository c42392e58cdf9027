#include "launcher/see/view/span_lanes.h"

#include <algorithm>

#include "launcher/limits.h"

namespace ddp::launcher {

std::optional<int> SpanLanes::place(std::uint64_t begin, std::uint64_t end) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].place({begin, end})) return static_cast<int>(i);
  }
  return std::nullopt;
}

bool SpanLanes::Lane::place(const Span& span) {
  const auto crosses = [&](const Span& other) {
    const bool is_apart = span.end <= other.begin || span.begin >= other.end;
    const bool is_within = span.begin >= other.begin && span.end <= other.end;
    const bool is_around = span.begin <= other.begin && span.end >= other.end;
    return !is_apart && !is_within && !is_around;
  };
  if (span.begin < latest_end && (span.begin < forgotten_until || std::ranges::any_of(spans, crosses))) return false;
  add(span);
  return true;
}

void SpanLanes::Lane::add(const Span& span) {
  latest_end = std::max(latest_end, span.end);
  if (spans.size() < limits::kTraceSpans) return spans.push_back(span);
  forgotten_until = std::max(forgotten_until, spans[next].end);
  spans[next] = span;
  next = (next + 1) % spans.size();
}

}  // namespace ddp::launcher
