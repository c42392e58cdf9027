// GlooContext: Gloo's connections between all ranks of a group, and messages over them. Nothing of Gloo shows here.
#pragma once

#include <ddp/store.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/backend/backend.h"

namespace ddp::internal {

// A piece of memory for a peer, or from it.
struct GlooMessage {
  int peer = 0;
  void* data = nullptr;  // of an outgoing one only read
  std::size_t bytes = 0;
};

// Messages under way. Whatever happens, the memory is not touched any more once this is destroyed.
class GlooTransfers {
 public:
  virtual ~GlooTransfers() = default;
  // Until all have been sent and received; throws as GlooContext.
  virtual void wait() = 0;
};

// Thread-safe. Throws Error: `timeout`, `peer_lost` (which Gloo does not always notice: a watch does, for peers of this
// node), `aborted`, `unavailable`.
class GlooContext {
 public:
  // Collective. Meets the other ranks through `store` and connects to each.
  static std::unique_ptr<GlooContext> connect(const BackendOptions& options, std::shared_ptr<Store> store);

  virtual ~GlooContext() = default;

  // Messages meet when both sides give the same tag; it must be used once only between two ranks and in one direction.
  virtual std::unique_ptr<GlooTransfers> start(std::span<const GlooMessage> outgoing,
                                               std::span<const GlooMessage> incoming, std::uint64_t tag,
                                               std::chrono::milliseconds timeout) = 0;

  // What is under way and what begins later fails with `aborted`; other ranks lose this one.
  virtual void abort() = 0;
};

}  // namespace ddp::internal
