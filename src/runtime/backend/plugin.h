// This file declares the table that a plug-in library (libddp_mpi.so) gives to the runtime, and how the runtime finds
// it.
// See docs/development/decisions/0004-nccl-is-a-plug-in.md.
#pragma once

#include <memory>
#include <string>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// This number is raised with every change of Backend, BackendOptions, NodeGroup, Call, Store, Buffer or this table.
inline constexpr int kBackendPluginAbi = 6;

// Describes whether a backend can work in this process.
struct ProbeResult {
  std::string obstacle;  // empty if the backend can work
  std::string device;    // "host/pci-bus-id" of the GPU that it would use; two ranks must not name the same one
};

struct BackendPlugin {
  int abi = kBackendPluginAbi;
  const char* name = nullptr;
  ProbeResult (*probe)(const BackendOptions& options) = nullptr;
  // Returns the text of rank 0 on every rank, before there is a store. The pointer is null if the backend cannot do
  // this.
  // See docs/development/decisions/0016-mpi-ranks-meet.md.
  std::string (*broadcast)(const BackendOptions& options, const std::string& text) = nullptr;
  std::unique_ptr<Backend> (*create)(const BackendOptions& options, std::shared_ptr<Store> store) = nullptr;
};

// A plug-in exports only this symbol.
inline constexpr const char* kBackendPluginSymbol = "ddp_backend_plugin";
using BackendPluginFunction = const BackendPlugin* (*)();

struct LoadedPlugin {
  const BackendPlugin* plugin = nullptr;
  std::string obstacle;  // why there is no plug-in, empty if there is one
};

// Opens libddp_<name>.so in DDP_PLUGIN_DIR if that is set, else beside the runtime library. It stays open.
LoadedPlugin load_backend_plugin(const std::string& name);

}  // namespace ddp::internal
