// Declares the hook of sharded optimizers. Each rank gets the mean of its own share of every range, and nothing else.
// See mean_hook.cpp.
#pragma once

#include <ddp/extension/communication_hook.h>

#include <memory>

namespace ddp::internal {

// share_of() determines the shares. Afterwards, the other shares still hold this rank's own gradient.
std::shared_ptr<CommunicationHook> make_shard_hook();

}  // namespace ddp::internal
