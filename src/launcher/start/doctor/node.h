// Node is what the checks may ask about this node: a tree of files, and the few facts that no file shows.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/start/facts/gpu_facts.h"
#include "launcher/start/facts/resource_limits.h"
#include "launcher/start/plan/device_binding.h"

namespace ddp::launcher::doctor {

struct FileSystem {
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;  // for this user

  friend bool operator==(const FileSystem&, const FileSystem&) = default;
};

struct Setting {
  std::string name;
  std::string value;
  std::string file;  // of NCCL; empty for the environment
};

struct Node {
  std::string root;  // /proc, /sys, /dev, /etc and the libraries are below it; empty except in tests
  std::string host_name;
  std::vector<std::string> environment;  // "NAME=value" lines
  std::string home;                      // of this user; below `root`
  bool is_root = false;                  // the doctor may read what only root may
  ResourceLimits limits;
  std::vector<GpuFacts> gpus;       // of the node
  std::string gpus_failure;         // why they could not be read; empty if they were
  bool sees_all_processes = false;  // it is not in a container
  int workers = 1;                  // on this node
  int nodes = 1;                    // of the job
  std::string folder;               // of the checkpoints; empty if none is named
  std::string cuda_library = "libcuda.so.1";
  std::string nvml_library = "libnvidia-ml.so.1";
  std::optional<bool>
      is_synchronized;  // a time server sets the clock, says the kernel; std::nullopt if it does not say
  std::function<std::optional<FileSystem>(const std::string& path)> file_system;  // std::nullopt if there is none

  // Returns a file of the tree, or "" if it cannot be read.
  std::string text(const std::string& path) const;
  std::string line(const std::string& path) const;
  // Returns what follows "NAME:" in a line of a file, or "".
  std::string field(const std::string& path, const std::string& name) const;
  bool exists(const std::string& path) const;
  // Returns the names in a directory of the tree, in their order.
  std::vector<std::string> names(const std::string& path) const;
  // Returns the value of a variable, or "" if it is not set.
  std::string variable(std::string_view name) const;
  // Returns the CPUs that this process may use, or none if they are unknown.
  std::set<int> allowed_cpus() const;
  // Returns the GPUs that the workers see, by CUDA_VISIBLE_DEVICES.
  std::vector<VisibleGpu> visible() const;
  // Returns the variables of the environment, and those of NCCL's files that the environment does not have.
  std::vector<Setting> settings() const;
  // Returns the value of one of them, or "".
  std::string setting(const std::string& name) const;
  bool has_nvswitch() const;
  bool is_virtual() const;  // it is a virtual machine
};

// Returns the CPUs of a list such as "0-3,8".
std::set<int> cpus_of(const std::string& list);

// Finds the GPUs of this node. If there is a driver, its files are read in another process, because they may hang. The
// failure says so. The calling process must have one thread.
base::Result<std::vector<GpuFacts>> gpus_of_this_node(std::chrono::milliseconds limit);

// Reads this node. `workers` is 0 if there is a worker for each visible GPU, or one without GPUs. `nodes` is 0 if the
// scheduler's number counts, or 1. The calling process must have one thread.
Node this_node(int workers, int nodes, const std::string& folder);

}  // namespace ddp::launcher::doctor
