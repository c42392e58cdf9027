// The nccl backend with the libraries of this node.
#pragma once

#include <memory>

#include "runtime/backend/backend.h"
#include "runtime/backend/plugin.h"

namespace ddp::internal {

// Whether NCCL can work in this process, and the GPU that it would use.
ProbeResult probe_nccl(const BackendOptions& options);

// See NcclBackend. Only where the probe found no obstacle.
std::unique_ptr<Backend> make_nccl_backend(const BackendOptions& options, std::shared_ptr<Store> store);

}  // namespace ddp::internal
