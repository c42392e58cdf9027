// Opens the two ends of a worker's stream: a pipe, or a separate terminal if the launcher's output is one.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

struct WorkerChannel {
  base::UniqueFd ours;    // the launcher's end, which is read without blocking
  base::UniqueFd theirs;  // the end that becomes the worker's descriptor
  bool terminal = false;  // EIO then also marks the end
};

// `like` is the descriptor to which the stream would go without the launcher. If that is a terminal, the channel is one
// too (raw, of the same size). A program then flushes its lines and shows its progress bars as it does there. If no
// terminal is available, the channel is a pipe. `pipe_bytes` is its size, as far as the system allows. See
// copy_terminal_size() for `tag_columns`.
base::Result<WorkerChannel> open_worker_channel(int like, std::size_t pipe_bytes, std::size_t tag_columns = 0);

// Copies the size of the terminal `like` to the worker's terminal, without the columns that the tag takes. A progress
// bar as wide as the terminal would not fit into one of its lines.
void copy_terminal_size(int like, int terminal, std::size_t tag_columns = 0);

}  // namespace ddp::launcher
