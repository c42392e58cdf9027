// NodeLinks holds a Unix socket between each two ranks of a node. Memory is passed over it. When a process dies, the
// kernel closes its socket, unless a child of the process holds it open. In that case, a descriptor of the process
// itself (pidfd) shows the death, if the system has pidfds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace ddp::internal {

// Listens on a socket to which other ranks can connect. Its name is random and lives only as long as the socket.
class NodeListener {
 public:
  NodeListener();
  const std::string& name() const { return name_; }
  int fd() const { return fd_.get(); }

 private:
  std::string name_;
  base::UniqueFd fd_;
};

// Holds one message: a number, and memory that is passed with it.
struct NodeMessage {
  std::uint32_t number = 0;
  base::UniqueFd memory;  // may be empty
};

class NodeLinks {
 public:
  // Connects to the listeners in `names` before `own`, and accepts connections from the ranks after it. Throws
  // `timeout`, `peer_lost`, or `unavailable` if a process of another user answers.
  NodeLinks(const NodeListener& listener, const std::vector<std::string>& names, std::size_t own,
            std::chrono::milliseconds timeout);

  // Returns the peer's pid as this process sees it.
  int pid(std::size_t peer) const;

  // Returns whether this peer has closed its end, because it has left or died. Any thread may call it.
  bool gone(std::size_t peer) const;

  // Returns false if the message cannot be sent: the peer is gone, or too many messages are unread. Any thread may call
  // it.
  bool send(std::size_t peer, std::uint32_t number, int memory) const;

  // Waits for the next message until `limit`. Returns std::nullopt if none comes or the peer is gone.
  std::optional<NodeMessage> receive(std::size_t peer, std::chrono::milliseconds limit) const;

 private:
  std::vector<base::UniqueFd> sockets_;    // by index; empty for this rank itself
  std::vector<base::UniqueFd> processes_;  // by index; empty for this process, and on systems without pidfds
};

}  // namespace ddp::internal
