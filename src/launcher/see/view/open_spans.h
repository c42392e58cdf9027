// OpenSpan is something that a rank has begun and not ended: what it hangs in, if it hangs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/run/ranks/rank_view.h"

namespace ddp::launcher {

struct OpenSpan {
  bool is_phase = false;     // otherwise a collective
  std::string name;          // such as "all_reduce f32[8]" or "data loading"
  std::string group;         // of a collective
  std::uint64_t number = 0;  // of a collective, in its group
  std::uint64_t since = 0;   // CLOCK_MONOTONIC, nanoseconds

  friend bool operator==(const OpenSpan&, const OpenSpan&) = default;
};

// Returns the collectives that the rank has called and not finished, at most limits::kTraceOpenCalls per group, and its
// phase unless that is training.
std::vector<OpenSpan> open_spans(const RankView& rank);

// Most samples know neither the name of a collective nor, for another node, when it was called. Keeps both from earlier
// spans.
void keep_what_is_known(const std::vector<OpenSpan>& known, std::vector<OpenSpan>& spans);

}  // namespace ddp::launcher
