// HostFacts: what the plan must know about this machine. Gathered once; everything after it is pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp::launcher {

// Where a program is, or why it cannot be started.
struct ProgramFacts {
  std::string path;  // resolved; empty if not found
  bool found = false;
  bool executable = false;  // an executable regular file
  bool is_directory = false;
  std::string suggestion;  // a file that was probably meant
};

struct HostFacts {
  std::string host_name;
  int cpu_count = 1;                     // those this process may run on
  int gpu_count = 0;                     // NVIDIA GPUs of the machine
  std::vector<std::string> environment;  // "NAME=value"
  ProgramFacts program;
  std::string random_id;  // for a run without a name
};

// Reads files and the environment only: no driver library is loaded, nothing here can hang on a GPU.
HostFacts gather_host_facts(const std::string& program);

// The value of `name` in "NAME=value" lines.
std::optional<std::string> find_variable(const std::vector<std::string>& environment, const std::string& name);

}  // namespace ddp::launcher
