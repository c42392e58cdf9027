// This header declares write_to_page(), which writes recorded calls to a worker's status page as the runtime would
// (docs/development/protocol.md, section 6).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "torch_reader/recording.h"
#include "wire/status_page_layout.h"

namespace ddp::torch_reader {

// Holds the same moment on both clocks, in nanoseconds.
struct Moment {
  std::uint64_t monotonic = 0;
  std::uint64_t realtime = 0;
};

// Returns the monotonic time of a moment, which may be after `now`: a recorder answers with later calls, too. Returns 0
// if `realtime` is too long ago.
constexpr std::uint64_t on_monotonic(const Moment& now, std::uint64_t realtime) {
  if (realtime > now.realtime) return now.monotonic + (realtime - now.realtime);
  return now.monotonic - std::min(now.monotonic, now.realtime - realtime);
}

// `pid` is that of the worker. Returns false and leaves the page unchanged if it belongs to another process, or to a
// program with the runtime. Only one process may write at a time. If `is_last`, the groups are those of the program's
// end.
bool write_to_page(wire::StatusPageLayout& page, int pid, std::span<const RecordedGroup> groups, const Moment& now,
                   bool is_last = false);

// Writes newer counters of a group that write_to_page() has written and in which a thread of the program may wait.
// `call` is its latest call, of which only number and time need to be known.
void write_counters(wire::StatusPageLayout& page, std::uint64_t identity, const RecordedCall& call,
                    std::uint64_t finished, const Moment& now);

}  // namespace ddp::torch_reader
