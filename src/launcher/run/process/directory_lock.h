// A launcher locks a directory to show that it is in use: its temporary files, or the cgroup of its workers. If another
// launcher gets the lock, the owner is dead, so the other launcher removes the leftovers.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace ddp::launcher {

// Opens the directory and locks it for this process; programs that it starts do not inherit the lock. Returns no
// descriptor, and sets errno, if that fails: EWOULDBLOCK if another process has the lock, ENOENT if the directory is
// gone. While the lock is held, `path` names the directory that is locked, and not one that was made there meanwhile.
base::UniqueFd lock_directory(const std::string& path);

}  // namespace ddp::launcher
