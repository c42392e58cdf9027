// The gloo backend: collectives on host memory over TCP. The fallback that works everywhere.
#pragma once

#include <memory>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// Meets the other ranks through `store` and connects to each. Blocks; throws timeout if a rank does not come,
// unavailable if no connection can be made.
std::unique_ptr<Backend> make_gloo_backend(const BackendOptions& options, std::shared_ptr<Store> store);

}  // namespace ddp::internal
