// GlooContext holds Gloo's connections between all ranks of a group and sends messages over them. This header hides
// Gloo's types.
#pragma once

#include <ddp/store.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// Describes memory that is sent to a peer or received from it.
struct GlooMessage {
  int peer = 0;
  void* data = nullptr;  // only read if the message is outgoing
  std::size_t bytes = 0;
};

// Represents messages under way. Once it is destroyed, the memory is not touched any more, whatever happens.
class GlooTransfers {
 public:
  virtual ~GlooTransfers() = default;
  // Returns when all messages have been sent and received. Throws the same errors as GlooContext.
  virtual void wait() = 0;
};

// The class is thread-safe. It throws Error of kind `timeout`, `peer_lost`, `aborted` or `unavailable`. Gloo does not
// always notice a lost peer; GlooWatch does.
class GlooContext {
 public:
  // Meets the other ranks through `store` and connects to each of them. All ranks call it.
  static std::unique_ptr<GlooContext> connect(const BackendOptions& options, std::shared_ptr<Store> store);

  virtual ~GlooContext() = default;

  // Messages are matched if both sides give the same tag. A tag must be used only once between two ranks in one
  // direction.
  virtual std::unique_ptr<GlooTransfers> start(std::span<const GlooMessage> outgoing,
                                               std::span<const GlooMessage> incoming, std::uint64_t tag,
                                               std::chrono::milliseconds timeout) = 0;

  // Makes running and later operations fail with `aborted`. Other ranks lose this one.
  virtual void abort() = 0;
};

}  // namespace ddp::internal
