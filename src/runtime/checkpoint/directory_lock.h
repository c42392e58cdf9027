// DirectoryLock keeps two jobs from saving checkpoints into one directory.
#pragma once

#include <chrono>
#include <string>

#include "base/unique_fd.h"

namespace ddp::internal {

// Holds a lock of the file `.lock` in the directory. The kernel ends the lock with the process, so a job that died
// leaves none behind, although the file stays.
class DirectoryLock {
 public:
  // Waits up to `patience` while another process or another DirectoryLock has the lock. Then it throws unavailable,
  // naming the owner. On a file system without locks the object locks nothing, and prints a note.
  DirectoryLock(const std::string& directory, std::chrono::milliseconds patience);
  // Removes the file.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  const std::string path_;
  base::UniqueFd fd_;
};

}  // namespace ddp::internal
