// NCCL as it is installed on this node.
#pragma once

#include <string>

#include "runtime/backend/nccl/nccl_api.h"

namespace ddp::internal {

// Before it communicators could not be split and buffers not registered.
inline constexpr int kOldestNccl = 21900;

struct NcclLibrary {
  NcclApi api;
  std::string obstacle;  // why it cannot be used; empty: it can
};

// Looks the functions up. The library stays open.
NcclLibrary open_nccl(const char* file);

// libnccl.so.2: the one that the program has loaded already, else the one on the loader's path. Opened once a process,
// any thread.
const NcclLibrary& nccl_library();

}  // namespace ddp::internal
