// The hook of sharded optimizers: each rank gets the mean of its own share of every range, and nothing else. See
// mean_hook.cpp.
#pragma once

#include <ddp/extension/communication_hook.h>

#include <memory>

namespace ddp::internal {

// Shares are those of share_of(). What the other shares hold afterwards is this rank's own gradient.
std::shared_ptr<CommunicationHook> make_shard_hook();

}  // namespace ddp::internal
