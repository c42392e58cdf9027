// The cpu backend between nodes: what can be done inside each node is done there, the rest is Gloo's.
#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// all_reduce is hierarchical: every rank reduces its slice among the ranks of its node, all-reduces it with the
// ranks that have the same slice on the other nodes, and gathers the other slices from its own node. So each byte
// crosses the network once for each node, over as many connections as a node has ranks. (Nodes with different
// numbers of ranks: over one.) All else goes through Gloo between all ranks.
//
// `inside`: the backend of this node's ranks. Collective; throws as make_gloo_backend.
std::unique_ptr<Backend> make_nodes_backend(const BackendOptions& options, const std::shared_ptr<Store>& store,
                                            std::unique_ptr<Backend> inside);

}  // namespace ddp::internal
