// The table that a plug-in library (libddp_mpi.so) hands to the runtime, and how it is found.
// docs/development/decisions/0004-nccl-is-a-plug-in.md
#pragma once

#include <memory>
#include <string>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// Raised with every change of Backend, BackendOptions, NodeGroup, Call, Store, Buffer or this table.
inline constexpr int kBackendPluginAbi = 6;

// Whether a backend can work in this process.
struct ProbeResult {
  std::string obstacle;  // empty: it can
  std::string device;    // "host/pci-bus-id" of the GPU it would use; two ranks must not name the same
};

struct BackendPlugin {
  int abi = kBackendPluginAbi;
  const char* name = nullptr;
  ProbeResult (*probe)(const BackendOptions& options) = nullptr;
  // The text of rank 0, on every rank, before there is a store; null if it cannot.
  // docs/development/decisions/0016-mpi-ranks-meet.md
  std::string (*broadcast)(const BackendOptions& options, const std::string& text) = nullptr;
  std::unique_ptr<Backend> (*create)(const BackendOptions& options, std::shared_ptr<Store> store) = nullptr;
};

// The one symbol of a plug-in.
inline constexpr const char* kBackendPluginSymbol = "ddp_backend_plugin";
using BackendPluginFunction = const BackendPlugin* (*)();

struct LoadedPlugin {
  const BackendPlugin* plugin = nullptr;
  std::string obstacle;  // why there is none
};

// Opens libddp_<name>.so in DDP_PLUGIN_DIR if that is set, else beside the runtime library. It stays open.
LoadedPlugin load_backend_plugin(const std::string& name);

}  // namespace ddp::internal
