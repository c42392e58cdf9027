// The backends of this library, and how each is made.
#pragma once

#include <memory>

#include "runtime/backend/backend.h"
#include "runtime/backend/plugin.h"

namespace ddp::internal {

// The cpu backend: collectives on host memory. Between ranks of one node through memory that they share: they read each
// other's data where they lie if they are in memory from allocate() or in the same process, else through staging
// buffers. Results have the same bits whichever way is taken. Between nodes see make_nodes_backend. options.node_group:
// the ranks have met.
std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options, std::shared_ptr<Store> store);

// The same between the ranks of options.node_group alone. `reads_near`: false, for tests, if all is to be staged.
std::unique_ptr<Backend> make_inside_backend(const BackendOptions& options, bool reads_near);

// The cpu backend between nodes: what can be done inside each node is done there, the rest is Gloo's.
//
// all_reduce is hierarchical: every rank reduces its slice among the ranks of its node, all-reduces it with the
// ranks that have the same slice on the other nodes, and gathers the other slices from its own node. So each byte
// crosses the network once for each node, over as many connections as a node has ranks. (Nodes with different
// numbers of ranks: over one.) All else goes through Gloo between all ranks.
//
// `inside`: the backend of this node's ranks. Collective; throws as make_gloo_backend.
std::unique_ptr<Backend> make_nodes_backend(const BackendOptions& options, const std::shared_ptr<Store>& store,
                                            std::unique_ptr<Backend> inside);

// The gloo backend: collectives on host memory over TCP. The fallback that works everywhere. Meets the other ranks
// through `store` and connects to each. Blocks; throws timeout if a rank does not come, unavailable if no connection
// can be made.
std::unique_ptr<Backend> make_gloo_backend(const BackendOptions& options, std::shared_ptr<Store> store);

// Whether NCCL can work in this process, and the GPU that it would use.
ProbeResult probe_nccl(const BackendOptions& options);

// The nccl backend with the libraries of this node; see NcclBackend. Only where the probe found no obstacle.
std::unique_ptr<Backend> make_nccl_backend(const BackendOptions& options, std::shared_ptr<Store> store);

}  // namespace ddp::internal
