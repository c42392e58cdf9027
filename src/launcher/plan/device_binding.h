// Which GPUs each worker sees: a pure function.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

struct DeviceBindingInput {
  int workers = 1;
  std::vector<std::string> gpus;  // as CUDA_VISIBLE_DEVICES names them, in order
  bool own_only = true;           // each worker sees its GPU; false: all of them
  bool oversubscribe = false;     // more workers than GPUs: worker i gets GPU i mod n
};

// The GPUs this job may use: those of an inherited CUDA_VISIBLE_DEVICES (indices, UUIDs, MIG names), cut where CUDA
// itself would stop reading (an index that does not exist, or "-1"), else all of the machine.
std::vector<std::string> visible_gpus(const std::optional<std::string>& cuda_visible_devices, int gpu_count);

// CUDA_VISIBLE_DEVICES of each worker; nothing where it is to be left alone (no GPUs).
base::Result<std::vector<std::optional<std::string>>> bind_devices(const DeviceBindingInput& input);

}  // namespace ddp::launcher
