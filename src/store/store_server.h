// StoreServer: the rendezvous store behind a TCP port. Lives on the launcher's event loop; never linked into a worker.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/event_loop.h"

namespace ddp::store {

class StoreServer {
 public:
  // Told when a connection is closed because it broke a rule: the peer's address and the rule.
  using ViolationCallback = std::function<void(const std::string& peer, const std::string& reason)>;

  // Binds and listens at once; `port` 0 lets the kernel choose. The port is held until destruction.
  static base::Result<std::unique_ptr<StoreServer>> listen(net::EventLoop& loop, const std::string& address,
                                                           std::uint16_t port, ViolationCallback on_violation);

  virtual ~StoreServer() = default;

  virtual std::uint16_t port() const = 0;
};

}  // namespace ddp::store
