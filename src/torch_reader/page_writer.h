// Writes what was recorded to the status page of a worker, as the runtime would do (docs/development/protocol.md,
// section 6).
#pragma once

#include <cstdint>
#include <span>

#include "torch_reader/recording.h"
#include "wire/status_page_layout.h"

namespace ddp::torch_reader {

// The same moment on both clocks, in nanoseconds.
struct Moment {
  std::uint64_t monotonic = 0;
  std::uint64_t realtime = 0;
};

// `pid`: of the worker. False if the page belongs to another process, or to a program with the runtime: it is left as
// it is. Of several processes one may write at a time.
bool write_to_page(wire::StatusPageLayout& page, int pid, std::span<const RecordedGroup> groups, const Moment& now);

}  // namespace ddp::torch_reader
