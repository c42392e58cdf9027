// Declares the functions that create the backends of this library.
#pragma once

#include <memory>

#include "runtime/backend/backend.h"
#include "runtime/backend/plugin.h"

namespace ddp::internal {

// Creates the cpu backend, which runs collectives on host memory. Ranks of one node exchange data through shared
// memory. They read each other's data in place if the data are in memory from allocate() or in the same process, else
// through staging buffers. The results are bit-identical either way. For several nodes, see make_nodes_backend. The
// ranks of options.node_group have found each other before.
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options, std::shared_ptr<Store> store);

// Creates the same backend for the ranks of options.node_group alone. Tests set `reads_near` to false, so that all data
// are staged.
std::unique_ptr<Backend> make_inside_backend(const BackendOptions& options, bool reads_near);

// Creates the cpu backend between nodes. Work that is possible inside a node is done there; Gloo does the rest.
//
// all_reduce is hierarchical. Every rank reduces its slice among the ranks of its node. Then it all-reduces the slice
// with the ranks that have the same slice on the other nodes. Then it gathers the other slices from its own node. So
// each byte crosses the network once per node, over as many connections as a node has ranks. If nodes have different
// numbers of ranks, one connection is used. All other operations go through Gloo between all ranks.
//
// `inside` is the backend of this node's ranks. All ranks call the function; it throws like make_gloo_backend.
std::unique_ptr<Backend> make_nodes_backend(const BackendOptions& options, const std::shared_ptr<Store>& store,
                                            std::unique_ptr<Backend> inside);

// Creates the gloo backend, which runs collectives on host memory over TCP. It is the fallback that works everywhere.
// It meets the other ranks through `store` and connects to each of them. Blocks. Throws timeout if a rank does not
// join, and unavailable if no connection can be made.
std::unique_ptr<Backend> make_gloo_backend(const BackendOptions& options, std::shared_ptr<Store> store);

// Returns whether NCCL can work in this process, and the GPU that it would use.
ProbeResult probe_nccl(const BackendOptions& options);

// Creates the nccl backend with the libraries of this node; see NcclBackend. The caller calls it only if the probe
// found no obstacle.
std::unique_ptr<Backend> make_nccl_backend(const BackendOptions& options, std::shared_ptr<Store> store);

}  // namespace ddp::internal
