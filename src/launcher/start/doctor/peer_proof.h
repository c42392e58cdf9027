// Proves that GPUs can write to each other's memory, by reading what arrived on the GPU that owns it. A test of the
// bandwidth proves nothing: on broken machines, the writer reads back its own data, and the owner sees zeros.
#pragma once

#include "launcher/start/doctor/checks.h"

namespace ddp::launcher::doctor {

// Tries each pair of GPUs to which CUDA offers peer access, in both directions, each pair in a process of its own:
// writes, reads and copies of 1 MiB, and 500 rounds in which a flag follows its data, on which NCCL relies. The
// same data go through host memory first. A single GPU does all of it with its own memory. Uses 2 MiB of each GPU, and
// what CUDA takes for each pair. If that could be missing to programs that use the GPUs, proves nothing and says so.
Findings check_peer_writes(const Node& node);

}  // namespace ddp::launcher::doctor
