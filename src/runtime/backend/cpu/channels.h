// Channels: send and recv between two ranks of one node, through a buffer of two halves.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/backend/cpu/rounds.h"

namespace ddp::internal {

// For each other rank and direction one thread at a time.
class Channels {
 public:
  Channels(std::shared_ptr<NodeGroup> node, const std::atomic<bool>& aborted);

  void run(const Call& call);

 private:
  void send(const Call& call, std::size_t to);
  void receive(const Call& call, std::size_t from);

  const std::shared_ptr<NodeGroup> node_;
  const NodeWait wait_;
};

}  // namespace ddp::internal
