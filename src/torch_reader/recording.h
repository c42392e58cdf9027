// This header parses the output of PyTorch's flight recorder about the collectives of one process. The functions have
// no side effects. Their input may be any text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::torch_reader {

// Describes a process group, as reported by code in the worker's Python (bindings/python/hook/sitecustomize.py).
struct GroupLine {
  std::string name;         // PyTorch's name, the same on all ranks
  std::string description;  // description for users; may be empty
  int rank = 0;
  int size = 0;
  std::vector<int> ranks;     // ranks of the job; empty if all
  std::uint64_t made_at = 0;  // CLOCK_REALTIME, nanoseconds
};

struct WorkerLines {
  int pid = 0;  // 0 if the file is not complete yet
  std::vector<GroupLine> groups;
};

// Parses the lines of the file. Invalid lines are skipped.
WorkerLines read_lines(std::string_view text);

struct RecordedCall {
  std::uint64_t sequence = 0;  // counts from 1 in the order of the calls on the group
  std::string operation;       // the status page's name, such as "all_reduce", or PyTorch's if the page has none
  std::string type;            // "f32"; "" or another name if the page does not know the type
  std::uint64_t count = 0;     // number of input elements
  std::uint64_t bytes = 0;     // size of the input; 0 if the page does not know the type
  std::uint64_t made_at = 0;   // CLOCK_REALTIME, nanoseconds
  // CLOCK_REALTIME, nanoseconds: when PyTorch noticed its end; 0 if PyTorch does not record it.
  std::uint64_t finished_at = 0;
  // The fingerprint is the same on all ranks that make the same call. It covers only what must be equal on all ranks.
  // In gather and scatter, for example, some ranks pass no tensors. For backends other than gloo it covers nothing.
  std::uint64_t fingerprint = 0;
};

struct RecordedGroup {
  GroupLine line;
  std::uint64_t identity = 0;       // the same on all ranks of the group
  std::uint64_t called = 0;         // number of the latest collective
  std::uint64_t finished = 0;       // number of the latest collective before which none is in progress
  std::vector<RecordedCall> calls;  // those that PyTorch still holds, in order
};

// `json` is the recorder's output. The failure says why it cannot be parsed.
base::Result<std::vector<RecordedGroup>> read_recording(std::string_view json, const WorkerLines& lines);

}  // namespace ddp::torch_reader
