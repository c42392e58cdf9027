// These classes notice when workers end or crash. The calls of the others are worth a look then, because the launcher
// may end them soon.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "base/unique_fd.h"

namespace ddp::torch_reader {

// WorkerEnds wakes the reader when a worker has ended.
class WorkerEnds {
 public:
  // Observes the process until it has ended. Where the kernel refuses that, its end is not noticed.
  void follow(pid_t pid);

  // Waits until then, until one or more processes have ended, or until one of these descriptors, which may be -1, is
  // readable. Returns whether a process has ended.
  bool wait_until(std::chrono::steady_clock::time_point time, std::span<const int> descriptors = {});

 private:
  std::map<pid_t, base::UniqueFd> processes_;  // null if the process has ended
};

// CrashPipe reads what Python's faulthandler writes when a worker gets a fatal signal. The pipe has room for the first
// words only, so the worker does not end before the rest has been read. Until then, its calls can be asked for.
class CrashPipe {
 public:
  // Reads the pipe `path`, and writes a copy of the text to the file `copy`. If there is no such pipe, nothing is read.
  CrashPipe(const std::string& path, std::string copy);

  // Becomes readable when a worker crashes. It is -1 if there is no pipe.
  int descriptor() const { return pipe_.get(); }

  // Reads until the worker writes nothing more. Other processes that hold the pipe do not delay that. A text that does
  // not end is read for one second. The caller calls this again.
  void take();

 private:
  void write_copy(const char* bytes, std::size_t size);

  base::UniqueFd pipe_;
  std::string copy_;
  base::UniqueFd file_;
  std::size_t room_;  // bytes that the copy may still get
};

}  // namespace ddp::torch_reader
