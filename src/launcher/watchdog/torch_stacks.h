// What the stacks of a PyTorch program say that its first thread waits for: an operation of a process group. PyTorch
// records those of Gloo since 2.12, and sends, receives and monitored_barrier in no version.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/watchdog/stacks/stack_text.h"

namespace ddp::launcher {

enum class GroupWait : std::uint8_t {
  unknown,    // the stack is not there, or ends before the interpreter
  none,       // the thread does something else
  operation,  // it waits for an operation of a process group
};

struct AwaitedOperation {
  GroupWait wait = GroupWait::unknown;
  std::string operation;  // "all_reduce"; empty: not known
};

// From native functions: the first thread waits in c10d, and Gloo's threads carry the operation out.
AwaitedOperation awaited_operation(const RankStacks& native);

// Whether PyTorch's recorder tells of it, where there is one.
bool is_recorded(std::string_view operation);

struct PythonCall {
  std::string function;  // of torch.distributed, that the program called: "all_reduce"; empty: it called another one
  std::string place;     // the program's own line: "train.py:26"; empty: not known
};

// From Python's functions, as py-spy tells them: where the first thread is in the program.
PythonCall python_call(const RankStacks& python);

}  // namespace ddp::launcher
