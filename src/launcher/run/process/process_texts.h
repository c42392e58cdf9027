// All messages about processes that the launcher starts, and about its files and directories.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "base/exit_code.h"
#include "base/exit_status.h"
#include "base/printable.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/process/clone_process.h"
#include "launcher/run/process/image_directory.h"
#include "launcher/start/plan/start_failure.h"

namespace ddp::launcher {

// A worker or a helper does not start.

struct SetupFailure {
  const char* action = "";  // the action of the child that failed
  const char* advice = "";
};
inline constexpr SetupFailure kNoCgroup{"cannot join the job's cgroup", ""};
inline constexpr SetupFailure kNoBinding{"cannot bind it to its CPUs", " See --numa-binding."};
inline constexpr SetupFailure kNoOutput{"cannot connect its output", ""};

inline std::string cgroup_limit_text(const std::string& folder, std::uint64_t limit) {
  return "pids.max of cgroup " + folder + " is " + std::to_string(limit);
}
inline constexpr const char* kSomeLimitText = "ulimit -u, or pids.max of the cgroup";

// What execve() reports of a program.
struct ExecutionFailure {
  int error;
  int exit_code;
  const char* text;
};
inline constexpr const char* kDenied =
    "permission denied (the file, a directory above it, its interpreter, or a noexec mount).";
inline constexpr ExecutionFailure kExecutionFailures[] = {
    // The file existed a moment ago, so the interpreter (of a script or of a dynamic program) is missing.
    {ENOENT, base::kExitNotFound,
     "no such file, or its interpreter or dynamic loader is missing (see its first line, or ldd)."},
    {ENOEXEC, base::kExitNotExecutable,
     "it is not a program for this node: it has another architecture, or it is a script without a #! line."},
    {EACCES, base::kExitNotExecutable, kDenied},
    {EPERM, base::kExitNotExecutable, kDenied},
    {E2BIG, base::kExitNotExecutable, "its arguments and environment are too long."},
    {ETXTBSY, base::kExitNotExecutable, "the file is being written."},
};

// `processes_limit` names the limit of processes that is reached if `error` is EAGAIN.
inline StartFailure start_failure(const std::string& program, StartStage stage, const SetupFailure& setup, int error,
                                  const std::string& processes_limit) {
  const std::string start = "cannot start " + program + ": ";
  const std::string reason = std::strerror(error);
  const auto own_fault = [&](const std::string& text) { return StartFailure{base::kExitOwnFault, start + text}; };
  if (stage == StartStage::execution) {
    const auto* known = std::ranges::find(kExecutionFailures, error, &ExecutionFailure::error);
    if (known != std::end(kExecutionFailures)) return {known->exit_code, start + known->text};
    return own_fault(reason + ".");
  }
  if (stage == StartStage::parent) return own_fault("the launcher has exited.");
  if (stage == StartStage::preparation) return own_fault(setup.action + (" (" + reason + ").") + setup.advice);
  if (error == EAGAIN) return own_fault("the limit of processes is reached (" + processes_limit + ").");
  if (error == EMFILE || error == ENFILE) return own_fault("out of file descriptors (ulimit -n).");
  return own_fault(reason + ".");
}
inline std::string helper_not_started_text(const std::string& program, const std::string& reason) {
  return "cannot start " + program + ": " + reason;
}

// --preload

inline std::string forked_from_text(pid_t pid, std::chrono::milliseconds import) {
  return "workers are forked from pid " + std::to_string(pid) + ", after an import of " + base::human_duration(import);
}
inline std::string printed_by_import_text(std::string_view line) {
  return "printed by an import (--preload): " + base::printable(line);
}
inline std::string no_preload_text(const std::string& why) {
  return "workers are started without --preload: " + why;
}
inline std::string preloader_ended_text(const base::ExitStatus& status) {
  return "its preloader has ended: " + status.describe();
}
inline std::string no_hook_text(const std::string& program) {
  return program + " does not run ddplaunch's code at its start";
}
inline std::string import_too_long_text(std::chrono::nanoseconds limit) {
  return "the import has taken " + base::human_duration(limit);
}
inline std::string not_forked_text(const std::string& reason) {
  return "a worker could not be forked (" + reason + ")";
}
inline constexpr const char* kNotForkedText = "a worker could not be forked";
inline constexpr const char* kImportStoppedText = "the import was stopped by a signal";
inline constexpr const char* kNoPidfdsText = "the kernel has no descriptors of processes";
inline constexpr const char* kEndedWhileForkedText = "a worker has ended while it was forked";

// --image-dir

inline std::string image_failed_text(std::int64_t step, const std::string& directory, const std::string& reason) {
  return "step " + std::to_string(step) + " is not in --image-dir=" + directory + ": " + reason;
}
inline constexpr const char* kNoMoreWaitText = "the launcher does not wait for it any longer";
inline std::string image_hangs_text(std::int64_t step, const std::string& directory) {
  return "--image-dir=" + directory + " has taken nothing of step " + std::to_string(step) + " for " +
         base::human_duration(limits::kStateTime) + ": its file system may hang. No image is written meanwhile";
}
inline std::string image_written_text(std::int64_t step, const std::string& directory, const WrittenImage& written) {
  const std::string what = written.is_overtaken  ? " was overwritten before it was in "
                           : written.is_complete ? " is in "
                                                 : " of this node is in ";
  return "step " + std::to_string(step) + what + directory + " (" + base::human_duration(written.time) + ")";
}
inline std::string never_complete_text(const std::string& directory) {
  return "no image in --image-dir=" + directory + " becomes complete: all nodes must share that directory";
}
inline std::string last_image_text(std::int64_t step, const std::string& directory) {
  return "step " + std::to_string(step) + " is in " + directory +
         ": the same job goes on from it if it is started again";
}
inline std::string writing_image_text(std::int64_t step, const std::string& directory) {
  return "writing step " + std::to_string(step) + " to " + directory + " (a signal ends that)";
}

// Directories of the run

inline std::string no_directory_made_text(const std::string& path, const std::string& reason) {
  return "cannot make the directory " + path + ": " + reason;
}
inline std::string no_log_directory_text(const std::string& path, const std::string& reason) {
  return no_directory_made_text(path, reason) + ". See --log-dir.";
}
inline std::string no_temporary_directory_text(const std::string& reason) {
  return reason + ". Set TMPDIR to a directory that can be written.";
}
inline std::string no_directory_in_text(const std::string& path, const std::string& reason) {
  return "cannot make a directory in " + path + ": " + reason + ".";
}
inline std::string too_long_for_socket_text(const std::string& path) {
  return "the path " + path + " is too long for a socket";
}
inline std::string no_socket_in_text(const std::string& path, const std::string& reason) {
  return "no socket can be made in " + path + ": " + reason;
}
inline constexpr const char* kNoRootText = "no directory is known";

}  // namespace ddp::launcher
