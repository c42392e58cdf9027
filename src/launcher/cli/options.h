// Options: what the user asked for, as plain values. Defaults stand here and nowhere else.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"

namespace ddp::launcher {

struct Options {
  std::string nproc_per_node;             // a number, "auto", "gpu" or "cpu"; empty: one a visible GPU, 1 without
  std::string backend;                    // "", "gloo", "nccl" or "mpi"
  std::string device_visibility = "own";  // "own": each worker sees its GPU; "all": every worker sees all of them
  bool oversubscribe = false;             // several workers on one GPU
  std::chrono::milliseconds grace = limits::kDefaultGrace;
  std::string run_id;  // --rdzv-id; empty: a random one
  std::string role = "default";
  bool quiet = false;
  bool dry_run = false;

  std::vector<std::string> command;  // program and its arguments, verbatim
};

}  // namespace ddp::launcher
