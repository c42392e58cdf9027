// Reads from the stacks of a PyTorch program which process group operation its first thread waits for. PyTorch records
// NCCL's collectives since version 2.6, and Gloo's since version 2.12. No version records sends, receives and
// monitored_barrier.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/verdict.h"
#include "launcher/run/stacks/stack_text.h"

namespace ddp::launcher {

enum class GroupWait : std::uint8_t {
  unknown,    // there is no stack, or it ends before the interpreter's frames
  none,       // the thread does something else
  operation,  // the thread waits for an operation of a process group
};

struct AwaitedOperation {
  GroupWait wait = GroupWait::unknown;
  std::string operation;  // for example "all_reduce"; empty if unknown
};

// Returns the operation for which the first thread waits. Uses native frames: that thread waits in c10d, and Gloo's
// threads carry out the operation.
AwaitedOperation awaited_operation(const RankStacks& native);

// Returns the operation for which the first thread waits, from Python frames of py-spy. Returns `unknown` if the
// innermost function is the program's or a package's. It may wait in native code, such as Work.wait().
AwaitedOperation awaited_in_python(const RankStacks& python);

// Returns the frames of the first thread from the one that shows what it waits for, innermost first. Returns an empty
// list if it does not wait.
std::vector<std::string> frames_of_wait(const RankStacks& native);

// Returns whether PyTorch's recorder, if there is one, shows this operation.
bool is_recorded(std::string_view operation);

struct PythonCall {
  std::string function;  // the function of torch.distributed that the program called ("all_reduce"), or empty
  std::string place;     // the line of the program itself ("train.py:26"), or empty
};

// Returns where in the program the first thread is, from Python frames of py-spy.
PythonCall python_call(const RankStacks& python);

// Adds to `view` that its rank waits for this call. What it waits for according to its stack counts as a call of a
// group of all `size` ranks. If the call is unknown, its text is
// empty.
void add_wait_by_stack(RankView& view, int size, const CallView& call);
// Removes what add_wait_by_stack() has added. Returns its group, or std::nullopt if there is none.
std::optional<GroupView> take_wait_by_stack(RankView& view);

}  // namespace ddp::launcher
