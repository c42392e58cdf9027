#include "launcher/run/process/descriptor_moves.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ddp::launcher {
namespace {

bool is_target(int number, std::span<const DescriptorMove> moves) {
  return std::ranges::any_of(moves, [number](const DescriptorMove& move) {
    return move.from >= 0 && move.from != number && move.to == number;
  });
}

// Copies the descriptor to a free number that is no target. A copy with another number is closed at execve(), if no
// move replaces it before.
int copy_aside(int descriptor, std::span<const DescriptorMove> moves) {
  int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  while (copy >= 0 && is_target(copy, moves)) copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, copy + 1);
  return copy;
}

}  // namespace

int move_descriptors(std::span<DescriptorMove> moves) {
  for (DescriptorMove& move : moves) {
    if (move.from < 0 || !is_target(move.from, moves)) continue;
    move.from = copy_aside(move.from, moves);
    if (move.from < 0) return errno;
  }
  for (const DescriptorMove& move : moves) {
    if (move.from < 0) continue;
    const int result = move.from == move.to ? ::fcntl(move.to, F_SETFD, 0) : ::dup2(move.from, move.to);
    if (result < 0) return errno;
  }
  return 0;
}

}  // namespace ddp::launcher
