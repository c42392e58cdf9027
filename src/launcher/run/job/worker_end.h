// WorkerEnd describes how one worker ended. It is an event of the job, and stays in its outcome.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/exit_status.h"
#include "launcher/run/job/error_record.h"
#include "launcher/run/process/oom_kill.h"
#include "launcher/run/ranks/verdict.h"

namespace ddp::launcher {

using TimePoint = std::chrono::steady_clock::time_point;

struct WorkerEnd {
  int local_rank = 0;
  base::ExitStatus status = base::ExitStatus::exited(0);
  std::optional<ErrorRecord> error = {};
  std::uint64_t peak_rss_bytes = 0;
  std::optional<OomKill> oom = {};  // the kernel killed a process for lack of memory
  // The verdict concerns the worker's calls, or the calls of all ranks. It is set if the worker exited with 0 without
  // finishing a collective, or if it waited in one for a lost rank. It is also set if the worker gave up waiting, or if
  // ranks differ.
  std::optional<Verdict> verdict = {};
  // A rank that still runs wrote its error record before this one. This applies only to a failure with an error record.
  bool another_failed_before = false;
  bool is_injected = false;      // --inject killed it
  std::string gpu_uuid = {};     // UUID of the GPU that it used, as its page shows it; empty if unknown
  std::string crash_place = {};  // place in a Python program that got a fatal signal; empty if unknown

  // JobState adds what it knows of the worker.
  int rank = 0;
  pid_t pid = 0;
  TimePoint when = {};
  bool after_signal = false;  // the launcher had asked it to end
  bool after_kill = false;    // the launcher had sent SIGKILL

  // Returns whether the end follows from the launcher's SIGINT, SIGTERM or SIGKILL.
  bool is_our_doing() const;
  // Returns whether the worker exited with 0 before it was asked to end.
  bool has_left() const { return status.success() && !after_signal; }
  // Returns whether the worker failed because it lost another rank.
  bool is_secondary() const { return error && error->is_secondary; }
  // Returns whether the worker failed because ranks called different operations.
  bool found_mismatch() const { return error && error->is_mismatch; }
  // Returns whether the worker's own time-out passed while it waited for another rank.
  bool gave_up() const { return error && error->is_timeout; }
};

}  // namespace ddp::launcher
