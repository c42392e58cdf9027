// Gives a child descriptors under numbers that are agreed on, when any of these numbers may be in use.
#pragma once

#include <span>

namespace ddp::launcher {

struct DescriptorMove {
  int from = -1;  // -1 means that there is nothing to move
  int to = -1;    // not less than 0, and different in all moves
};

// Makes each `to` a copy of what its `from` is at the time of the call, as if all moves happened at once: a number may
// be the source of one move and the target of another. The copies stay open at execve(). The sources stay as they are
// unless they are targets, and `from` may change. Returns 0 or an error number. Makes only bare system calls.
int move_descriptors(std::span<DescriptorMove> moves);

}  // namespace ddp::launcher
