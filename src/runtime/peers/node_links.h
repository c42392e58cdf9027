// NodeLinks: a Unix socket between each two ranks of a node. Over it memory is handed on, and the kernel closes it
// when a process dies, however it does, unless a child of it holds it open; then a descriptor of the process itself
// (pidfd) tells, where there is one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace ddp::internal {

// A socket that other ranks can connect to. Its name is random and lives only as long as the socket.
class NodeListener {
 public:
  NodeListener();
  const std::string& name() const { return name_; }
  int fd() const { return fd_.get(); }

 private:
  std::string name_;
  base::UniqueFd fd_;
};

// One message: a number and what goes with it.
struct NodeMessage {
  std::uint32_t number = 0;
  base::UniqueFd memory;  // may be none
};

class NodeLinks {
 public:
  // Connects to those of `names` before `own`, and is connected to by those after it. Throws `timeout`, `peer_lost`,
  // and `unavailable` for a process of another user.
  NodeLinks(const NodeListener& listener, const std::vector<std::string>& names, std::size_t own,
            std::chrono::milliseconds timeout);

  // As this process sees it.
  int pid(std::size_t peer) const;

  // Whether this peer has closed its end: it has left or died. Any thread.
  bool gone(std::size_t peer) const;

  // False if it cannot be sent: the peer is gone, or too many wait unread. Any thread.
  bool send(std::size_t peer, std::uint32_t number, int memory) const;

  // The next message, waited for until `limit`; nothing if none comes or the peer is gone.
  std::optional<NodeMessage> receive(std::size_t peer, std::chrono::milliseconds limit) const;

 private:
  std::vector<base::UniqueFd> sockets_;    // by index; none for this rank itself
  std::vector<base::UniqueFd> processes_;  // none for this process, and where the system has none
};

}  // namespace ddp::internal
