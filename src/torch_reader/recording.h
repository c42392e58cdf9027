// This header parses the output of PyTorch's flight recorders about the collectives of one process. PyTorch has one
// recorder for the collectives of Gloo, and another one for those of NCCL. The functions have no side effects. Their
// input may be any text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::torch_reader {

enum class Recorder : std::uint8_t { gloo, nccl };

// Describes a process group, as reported by code in the worker's Python (bindings/python/hook/sitecustomize.py).
struct GroupLine {
  std::string name;         // PyTorch's name, the same on all ranks
  std::string description;  // description for users; may be empty
  int rank = 0;
  int size = 0;
  std::vector<int> ranks;     // ranks of the job; empty if all
  std::uint64_t made_at = 0;  // CLOCK_REALTIME, nanoseconds
  std::string backend;        // as given to PyTorch, such as "nccl" or "cpu:gloo,cuda:nccl"; may be empty
  std::string store;          // the store in which its ranks met; may be empty
};

// Returns whether the group may use the backend of this recorder. A group that names no backend may use both.
bool may_use(const GroupLine& line, Recorder recorder);

struct WorkerLines {
  int pid = 0;             // 0 if the file is not complete yet
  bool has_ended = false;  // the program has ended, and its last records are in files
  bool has_gloo = false;   // the recorders that this version of PyTorch has
  bool has_nccl = false;
  int times = -1;  // the program's descriptor of wire::CallTimesLayout; -1 if it has none
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
  // CLOCK_REALTIME, nanoseconds: when it ended (see CallTimes), or when PyTorch noticed its end; 0 if that is unknown.
  std::uint64_t finished_at = 0;
  // The fingerprint is the same on all ranks that make the same call. It covers only what must be equal on all ranks.
  // In gather and scatter, for example, some ranks pass no tensors. It is 0 if the call cannot be compared.
  std::uint64_t fingerprint = 0;
  bool is_root = false;  // this rank passes the parts of all ranks to a gather or a scatter
};

struct RecordedGroup {
  GroupLine line;
  Recorder recorder = Recorder::gloo;
  std::string number;               // PyTorch's number of the group in this process; "" if no entry shows it
  bool has_transfers = false;       // sends or receives are among its entries
  bool is_current = true;           // `called` and `finished` were true when the recorder was asked last
  std::uint64_t identity = 0;       // the same on all ranks of the group
  std::uint64_t called = 0;         // number of the latest collective
  std::uint64_t finished = 0;       // number of the latest collective before which none is in progress
  std::vector<RecordedCall> calls;  // those that PyTorch still holds, in order
};

// `json` is the recorder's output. The result has the groups that may use the recorder's backend, and those that only
// NCCL's recorder knows, because PyTorch made them by splitting another group. The failure says why the output cannot
// be parsed.
base::Result<std::vector<RecordedGroup>> read_recording(std::string_view json, const WorkerLines& lines,
                                                        Recorder recorder);

// Returns the groups that may use the recorder's backend, as read_recording() does if nothing was recorded.
std::vector<RecordedGroup> groups_without_calls(const WorkerLines& lines, Recorder recorder);

// Returns the groups to be shown. A group that may use both backends is shown for those that the process has used.
std::vector<RecordedGroup> merge(std::vector<RecordedGroup> gloo, std::vector<RecordedGroup> nccl);

// Holds the number of the last call that was enqueued, and of the last one that was completed, or -1 if there is none.
// PyTorch counts sends and receives separately from collectives, but these numbers may be of either.
struct GroupStatus {
  std::int64_t enqueued = -1;
  std::int64_t completed = -1;

  bool is_idle() const { return completed == enqueued; }
  bool operator==(const GroupStatus&) const = default;
};
using Statuses = std::map<std::string, GroupStatus>;  // by PyTorch's number of the group

// Reads the statuses from a recorder's output, which may be without entries.
base::Result<Statuses> read_statuses(std::string_view json);

}  // namespace ddp::torch_reader
