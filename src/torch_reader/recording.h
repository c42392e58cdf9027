// Recording: what PyTorch's flight recorder says of the collectives of one process, as values. Pure functions of text,
// which may be anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::torch_reader {

// A process group, as the lines in the worker's Python say it (bindings/python/hook/sitecustomize.py).
struct GroupLine {
  std::string name;         // of PyTorch, the same on all ranks
  std::string description;  // for people; may be empty
  int rank = 0;
  int size = 0;
  std::vector<int> ranks;     // of the job; empty: all
  std::uint64_t made_at = 0;  // CLOCK_REALTIME, nanoseconds
};

struct WorkerLines {
  int pid = 0;  // 0: the file is not whole yet
  std::vector<GroupLine> groups;
};

// Lines that do not read as such are passed over.
WorkerLines read_lines(std::string_view text);

struct RecordedCall {
  std::uint64_t sequence = 0;  // from 1, in the order of the calls on the group
  std::string operation;       // as the status page names it, "all_reduce"; or as PyTorch does
  std::string type;            // "f32"; "" or another name: none that the page knows
  std::uint64_t count = 0;     // elements that go in
  std::uint64_t made_at = 0;   // CLOCK_REALTIME, nanoseconds
  // The same on all ranks that call the same. Only of what must be alike on all ranks: the others of gather and scatter
  // give nothing, and what must be alike for backends other than gloo has not been looked at.
  std::uint64_t fingerprint = 0;
};

struct RecordedGroup {
  GroupLine line;
  std::uint64_t identity = 0;       // of the group on all of its ranks
  std::uint64_t called = 0;         // number of the latest collective
  std::uint64_t finished = 0;       // of the latest before which none is under way
  std::vector<RecordedCall> calls;  // the newest ones, in their order
};

// `json`: what the recorder says. The failure says why it cannot be understood.
base::Result<std::vector<RecordedGroup>> read_recording(std::string_view json, const WorkerLines& lines);

}  // namespace ddp::torch_reader
