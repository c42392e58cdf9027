// WorkerCgroup is a cgroup (version 2) around all workers of a job, if this user may create one. All processes that
// join it, and those that they start, can be killed at once, also in other sessions.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/unique_fd.h"

namespace ddp::launcher {

class WorkerCgroup {
 public:
  // Chooses a path below the launcher's own cgroup. The path is empty if there is no version 2, or no permission to
  // write.
  WorkerCgroup();

  // Creates the cgroup, and removes leftovers of jobs whose launcher was killed. A running launcher holds a lock on its
  // cgroup, because pids say nothing between containers. Returns false if that is not possible, or if a cgroup cannot
  // be killed (before Linux 5.14). The job then runs without a cgroup.
  bool make();

  ~WorkerCgroup() { remove(); }

  // Returns a descriptor to which a process writes "0" to join, or -1 if the cgroup was not created.
  int procs_fd() const { return procs_.get(); }
  // Returns the folder, for a process that is created in it, or -1 if the cgroup was not created.
  int folder_fd() const { return folder_.get(); }
  const std::string& path() const { return path_; }

  // Kills all processes inside and waits, at most `limit`, until it is empty. Blocks. Returns false if it is not empty.
  bool kill_all(std::chrono::milliseconds limit) const;

  // Removes the cgroup if it is empty.
  void remove() const;

 private:
  std::string path_;
  base::UniqueFd folder_;  // descriptor that holds the lock
  base::UniqueFd procs_;
};

}  // namespace ddp::launcher
