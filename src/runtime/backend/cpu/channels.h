// A channel carries send and recv between two ranks of one node, through a buffer of two halves.
//
// `filled` counts the halves that the sender has filled, `emptied` counts the halves that the receiver has emptied. A
// message takes at least one half, so that both ranks see each other's size. The sender may be two halves ahead.
#pragma once

#include <ddp/error.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "runtime/backend/cpu/rounds.h"

namespace ddp::internal {

// Only one thread at a time may call run() for a given peer and direction.
class Channels {
 public:
  Channels(std::shared_ptr<NodeGroup> node, const std::atomic<bool>& aborted)
      : node_(std::move(node)), wait_(node_, aborted) {}

  void run(const Call& call) {
    const std::size_t peer = node_->index_of(call.peer);
    call.operation == Operation::send ? send(call, peer) : receive(call, peer);
  }

 private:
  void send(const Call& call, std::size_t to) {
    NodeChannel& channel = node_->channel(node_->own(), to);
    std::byte* buffer = node_->channel_buffer(node_->own(), to);
    const std::size_t half = node_->own_area().channel_bytes / 2;
    const auto deadline = std::chrono::steady_clock::now() + call.timeout;
    std::uint32_t filled = channel.filled.value;
    const std::size_t bytes = call.input.bytes();
    std::size_t done = 0;
    do {
      wait_.until(channel.emptied, filled - 1, to, call, deadline);
      const std::size_t piece = std::min(half, bytes - done);
      NodeChannel::Message& message = channel.messages[filled % 2];
      message.bytes = bytes;
      message.type = static_cast<std::uint32_t>(call.input.type);
      if (piece > 0) {
        std::memcpy(buffer + filled % 2 * half, static_cast<const std::byte*>(call.input.data) + done, piece);
      }
      done += piece;
      node_->raise(channel.filled, ++filled);
    } while (done < bytes);
  }

  void receive(const Call& call, std::size_t from) {
    NodeChannel& channel = node_->channel(from, node_->own());
    const std::byte* buffer = node_->channel_buffer(from, node_->own());
    const std::size_t half = node_->area(from).channel_bytes / 2;
    const auto deadline = std::chrono::steady_clock::now() + call.timeout;
    std::uint32_t emptied = channel.emptied.value;
    const std::size_t bytes = call.output.bytes();
    std::size_t done = 0;
    do {
      wait_.until(channel.filled, emptied + 1, from, call, deadline);
      const NodeChannel::Message message = channel.messages[emptied % 2];
      const auto type = static_cast<DataType>(message.type);
      if (message.bytes != bytes || type != call.output.type) {
        throw Error(ErrorKind::mismatch,
                    "rank " + std::to_string(call.peer) + " sends " +
                        describe(ConstBuffer(nullptr, message.bytes / size_of(type), type)) +
                        ", but this rank receives " + describe(call.output),
                    call.peer);
      }
      const std::size_t piece = std::min(half, bytes - done);
      if (piece > 0) std::memcpy(static_cast<std::byte*>(call.output.data) + done, buffer + emptied % 2 * half, piece);
      done += piece;
      node_->raise(channel.emptied, ++emptied);
    } while (done < bytes);
  }

  const std::shared_ptr<NodeGroup> node_;
  const NodeWait wait_;
};

}  // namespace ddp::internal
