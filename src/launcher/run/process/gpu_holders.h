// Finds the processes that hold memory of a GPU, for the report of a rank that got none.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "launcher/run/process/gpu_counters.h"
#include "launcher/start/facts/gpu_facts.h"

namespace ddp::launcher {

struct GpuUser {
  pid_t pid = 0;
  std::optional<std::uint64_t> bytes = std::nullopt;  // memory that it holds; std::nullopt if unknown
  std::string name = {};                              // the kernel's name of the process; empty if unknown
  std::optional<uid_t> user = std::nullopt;           // set if it belongs to another user

  friend bool operator==(const GpuUser&, const GpuUser&) = default;
};

// Describes who uses a GPU now.
struct GpuUsers {
  enum class Known : std::uint8_t {
    nothing,       // neither the driver nor the kernel shows processes
    device_files,  // processes that have the device file open, which need not hold memory
    memory,        // processes that hold memory
  };
  Known known = Known::nothing;
  bool has_node_pids = false;  // the pids are those of the node, not of this container
  // These say why there may be more users: open files of processes of other users cannot be read, and a container does
  // not show processes outside of it.
  bool is_partial = false;
  bool is_in_container = false;
  std::vector<GpuUser> users;

  friend bool operator==(const GpuUsers&, const GpuUsers&) = default;
};

// Describes processes with an open file.
struct OpenFileSearch {
  std::vector<pid_t> pids;
  bool is_partial = false;  // some processes could not be examined, or the time was over
};

// Returns whether the process with this folder ("/proc/PID") has an open file for which `is_it` holds. The error is that
// of reading the folder. The process may end meanwhile.
bool has_open_file(const std::string& folder, const std::function<bool(const std::string& file)>& is_it,
                   std::error_code& error);

// Searches the processes below `proc` ("/proc" except in tests) for those that have `file` open.
OpenFileSearch find_processes_with(const std::string& file, const std::string& proc,
                                   std::chrono::steady_clock::time_point deadline);

// Runs the program until it prints a line, and kills it then, or at the deadline. Returns the line, or std::nullopt if
// there is none. Blocks. A program that hangs in the driver even after SIGKILL is left to the launcher's reaper.
std::optional<std::string> first_line_of(const std::string& program, std::chrono::steady_clock::time_point deadline);

// Asks the driver through ddp_gpu_reader, because a call of the driver may hang. If it does not answer, the open device
// files show the processes. Blocks for at most `limit`.
GpuUsers find_gpu_users(const GpuFacts& gpu, std::chrono::milliseconds limit);

}  // namespace ddp::launcher
