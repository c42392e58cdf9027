// WorkerCgroup: a cgroup (version 2) around all workers of a job, where this user may make one. What joins it and what
// that starts can be killed at once, wherever it has moved its session.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/unique_fd.h"

namespace ddp::launcher {

class WorkerCgroup {
 public:
  // Chooses a place below our own cgroup; none where there is no version 2, or no permission to write.
  WorkerCgroup();

  // Makes it, and ends what is left of those whose launcher was killed (a living one holds a lock on its own: pids say
  // nothing between containers). False where that cannot be done, or where a cgroup cannot be killed (before Linux
  // 5.14): then the job goes without.
  bool make();

  ~WorkerCgroup() { remove(); }

  // A process that writes "0" here joins; -1 if it was not made.
  int procs_fd() const { return procs_.get(); }
  // Its folder, for a process that is born in it; -1 if it was not made.
  int folder_fd() const { return folder_.get(); }
  const std::string& path() const { return path_; }

  // Kills all that is inside and waits, at most `limit`, until it is empty. Blocks. False if it is not.
  bool kill_all(std::chrono::milliseconds limit) const;

  // If it is empty.
  void remove() const;

 private:
  std::string path_;
  base::UniqueFd folder_;  // locked
  base::UniqueFd procs_;
};

}  // namespace ddp::launcher
