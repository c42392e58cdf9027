// The two ends of a worker's stream: a pipe, or a terminal of its own where ours is one.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddp::launcher {

struct WorkerChannel {
  base::UniqueFd ours;    // for reading, without blocking
  base::UniqueFd theirs;  // becomes the worker's descriptor
  bool terminal = false;  // then EIO is the end, too
};

// `like`: where the stream would go without us. If that is a terminal, so is the channel (raw, of the same size), so
// that a program flushes its lines and shows its progress bars as it does there; if none is to be had, a pipe.
// `pipe_bytes`: its size, as far as the system allows. `tag_columns`: see copy_terminal_size().
base::Result<WorkerChannel> open_worker_channel(int like, std::size_t pipe_bytes, std::size_t tag_columns = 0);

// The size of the terminal `like` becomes that of the worker's, without the columns that the tag takes: a progress bar
// as wide as the terminal would not fit into one of its lines.
void copy_terminal_size(int like, int terminal, std::size_t tag_columns = 0);

}  // namespace ddp::launcher
